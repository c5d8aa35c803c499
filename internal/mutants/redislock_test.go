// SPDX-License-Identifier: Apache-2.0

package mutants

func init() {
	const pkg = "redislock"
	lua := func(name, file, old, new, test string) mutant {
		return mutant{name: name, file: "redislock/lua/" + file, old: old, new: new, pkg: pkg, test: test}
	}
	guard := func(name, file, old, new, test string) mutant {
		return lua(name, "../internal/server/lua/"+file, old, new, test)
	}
	mutants = append(mutants,
		guard("grants before forgotten leases have ended", "guard.lua",
			"return math.max(0, from + ttl * 1000 - at)", "return 0", "TestForgottenLease/FLUSHALL"),
		guard("erased data is not noticed", "epoch.lua",
			"if field('cmdstat_' .. command) then age = 0 end", "", "TestNoNeedlessWait/erased"),
		guard("former replicas are believed", "epoch.lua",
			"if string.match(field('master_replid2') or '', '[^0]') then age = 0 end", "", "TestNoNeedlessWait/was_a_replica"),
		lua("hands over before forgotten leases have ended", "common.lua",
			"if closed(known[2], at) == 0 and hand(", "if hand(", "TestRenewalsGoOnInQuarantine"),
		lua("waiters who have gone get the lock", "common.lua",
			"'grant ' .. lease .. ' ' .. lock) > 0 then", "'grant ' .. lease .. ' ' .. lock) >= 0 then", "TestKilledWaiter"),
		lua("nobody is told that it is the first now", "common.lua",
			"    local lease, client = member(head)\n    if redis.call('PUBLISH', channel .. client, 'first '",
			"    if head then return end\n    local lease, client = member(head)\n    if redis.call('PUBLISH', channel .. client, 'first '",
			"TestStalledWaiter"),
		lua("release without a look at whose lock it is", "release.lua",
			"if owned(redis.call('GET', lock), lease) then", "if redis.call('GET', lock) then", "TestConformance/late-release-spares-successor"),
		lua("tokens follow the clock only", "common.lua",
			"local token = at > last and granted or digits(last + 1)", "local token = granted", "TestTokenFloor"),
		lua("what is no string is overwritten", "acquire.lua",
			"if redis.call('EXISTS', lock) == 1 then", "if false then", "TestWrongType"),
		mutant{name: "waiters do not look when they hear again", file: "redislock/hear.go",
			old: "for _, w := range s.waiters {", new: "for _, w := range map[string]*waiter{} {", pkg: pkg, test: "TestLostSubscription"},
		mutant{name: "a grant to a waiter who has left is kept", file: "redislock/hear.go",
			old: "s.work.Go(func() { s.decline(lease, rest) })", new: "_ = s.decline", pkg: pkg, test: "TestGrantToNobody"},
		mutant{name: "late commands are not undone", file: "redislock/store.go",
			old: "if !fail.Maybe {", new: "if fail != nil {", pkg: pkg, test: "TestLateCommand"},
		mutant{name: "a step of the clock ends no lease", file: "redislock/internal/server/clock.go",
			old: "if step > 0 && next.Heard", new: "if step < 0 && next.Heard", pkg: pkg, test: "TestClockStep"},
	)
}
