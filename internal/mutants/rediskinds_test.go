// SPDX-License-Identifier: Apache-2.0

package mutants

func init() {
	lua := func(name, file, old, new, test string) {
		mutants = append(mutants, mutant{name: name, file: "redislock/lua/" + file, old: old, new: new, pkg: "redislock", test: test})
	}
	lua("whoever asks fits in", "queue.lua",
		"return s.n == 0 or kind == s.kind and", "return s.n > 0 or kind ~= s.kind or", "TestWire/a-slot-is-one-of-as-many-as-there-are")
	lua("one slot more than there are", "queue.lua",
		"s.n < (tonumber(kind) or 1)", "s.n <= (tonumber(kind) or 1)", "TestWire/a-slot-is-one-of-as-many-as-there-are")
	lua("slots are never over", "queue.lua",
		"redis.call('ZRANGEBYSCORE', lock, 0, digits(at))", "redis.call('ZRANGEBYSCORE', lock, 0, 0)", "TestWire/a-slot-that-expires-spares-the-others")
	lua("a late renewal brings a reader back", "queue.lua",
		"if not ends or ends <= at then return nil end", "if not ends then return nil end", "TestWire/a-reader-that-expires-spares-the-others")
	lua("the release of a reader that was over says nothing", "queue.lua",
		"return ends > at", "return true", "TestWire/a-reader-that-expires-spares-the-others")
	lua("new readers overtake a writer", "queue.lua",
		"if mine and not token and not head and fits(s, mine) then", "if mine and not token and fits(s, mine) then", "TestReadersAndWriters")
	lua("a dead writer keeps readers out", "queue.lua",
		"if not moved and (not mine or head == me) then break end", "if not moved then break end", "TestDeadWriter")
	lua("the key outlives the last reader", "queue.lua",
		"if last then redis.call('PEXPIRE'", "if false then redis.call('PEXPIRE'", "TestKeyEndsWithTheLast")
	lua("a reader shortens the others", "queue.lua",
		"    lengthen(s.lock, px)", "    redis.call('PEXPIRE', s.lock, px)", "TestKeyEndsWithTheLast")
	lua("readers cannot be renewed without memory", "queue.lua",
		"  redis.call('PEXPIRE', lock, math.max(ttl, redis.call('PTTL', lock)))\n", "", "TestReadersWithoutMemory")
	lua("a set of another program is taken for readers", "queue.lua",
		"if not kind then redis.call('GET', lock) end", "", "TestTogetherOfAnotherProgram")
	lua("slots of any number", "acquire.lua",
		"if slots and place == ''", "if slots and place == 'never'", "TestWire/slots-of-another-number-are-refused-for-good")
	lua("a reader that asks again is another one", "acquire.lua",
		"if shares and shut == 0 and stay(lock, me, ttl, at) then", "if false then", "TestLostReplyOfAReader")
	lua("readers get in before forgotten leases have ended", "acquire.lua",
		"if not value and shut == 0 then", "if not value and (shut == 0 or kind == 'shared') then", "TestForgottenReaders/FLUSHALL")
	lua("a reader's renewal trips over its successor", "extend.lua",
		"local left = not value and attempt ~= '' and stay", "local left = attempt ~= '' and stay", "TestRenewalBesideASuccessor")
	lua("a reader that nobody waits for stays", "release.lua",
		"if attempt == '' then attempt = find(lock, lease) or '' end", "", "TestGrantToNobody")
	lua("downgrade without a look at whose lock it is", "downgrade.lua",
		"if not owned(known[4], old) then", "if not known[4] then", "TestWire/a-downgrade-of-a-lease-that-has-ended-says-so")
	lua("a downgrade that was given up is carried out late", "downgrade.lua",
		"if known[3] then return {-3} end", "", "TestDowngradeWithoutAnswer")
	lua("downgrade lets no reader in", "downgrade.lua",
		"if redis.call('EXISTS', queue) == 1 then", "if false then", "TestWire/a-downgrade-lets-readers-in-and-no-writer")
	lua("the key outlives the last reader that Efficiency has left", "efficient_break.lua",
		"if last then --", "if false then --", "TestKeyEndsWithTheLast")
	mutants = append(mutants, mutant{name: "Inspect takes a hand-over for a free lock", file: "redislock/inspect.go", pkg: "redislock",
		old: "value := text(replies[0][2]); value != \"\"", new: "value := text(replies[0][2]); false", test: "TestInspectBesideHandOver"})
	lua("Efficiency trips over readers", "efficient_extend.lua",
		"redis.pcall('GET', lock)", "redis.call('GET', lock)", "TestTogether")
}
