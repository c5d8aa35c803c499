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
			"if field('cmdstat_' .. command) then return 0 end", "", "TestNoNeedlessWait/erased"),
		guard("former replicas are believed", "epoch.lua",
			"if promoted or field(", "if field(", "TestNoNeedlessWait/was_a_replica"),
		guard("a record of another run is believed", "epoch.lua",
			"elseif run ~= boot or known", "elseif known", "TestFormerReplica"),
		guard("a record from the future is kept", "guard.lua", " or tonumber(from) > at then", " then", "TestRecordFromTheFuture"),
		guard("Bless counts for nothing to who comes late", "epoch.lua",
			"math.max(from, blessed) < at", "from < at", "TestLateArrival"),
		guard("nobody tells a server of another one", "epoch.lua",
			"elseif away and", "elseif false and", "TestOtherServer"),
		guard("a server without a record is not told of another one", "epoch.lua",
			"elseif not record and not away then", "elseif not record then", "TestOtherServer"),
		guard("a master is not asked for its data", "guard.lua",
			"if lineage() ~= data then return -1 end", "", "TestMasterInBetween"),
		guard("a master that was a replica is believed", "epoch.lua",
			"or known ~= data and promoted or", "or", "TestMasterInBetween"),
		guard("a look that cannot be noted stops a release", "guard.lua",
			"redis.pcall('SET', epoch", "redis.call('SET', epoch", "TestReleaseWithoutMemory"),
		mutant{name: "who comes late closes the server again", file: "redislock/internal/server/moves.go",
			old: "c.conns.Load() > known", new: "c.conns.Load() < known", pkg: pkg, test: "TestLateArrival"},
		mutant{name: "an answer from a run that was left is believed", file: "redislock/internal/server/moves.go",
			old: "if b.move == s.moves.count {", new: "if true {", pkg: pkg + "/internal/server", test: "TestStaleAnswer"},
		mutant{name: "servers that evict keys will do", file: "redislock/internal/server/guard.go",
			old: `policy != "noeviction" && policy`, new: `policy == "none" && policy`, pkg: pkg, test: "TestEviction"},
		lua("hands over before forgotten leases have ended", "common.lua",
			"if closed(epoch, known[2], at) == 0 and hand(", "if hand(", "TestRenewalsGoOnInQuarantine"),
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
		lua("a late look brings a lease back", "acquire.lua", "if known[4] then return {-3} end", "", "TestLateLook"),
		lua("a release in doubt leaves no word", "release.lua", "if doubt == '1' then", "if false then", "TestLateLook"),
		mutant{name: "the heir of a lost Pass is forgotten", file: "redislock/grant.go",
			old: `if heir != "" {`, new: `if heir == "none" {`, pkg: pkg, test: "TestPassTwice"},
		mutant{name: "leases are trusted before replicas have them", file: "redislock/internal/server/replicas.go",
			old: "case r.have < int64(s.Replicas):", new: "case r.have < 0:", pkg: pkg, test: "TestWaitReplicas"},
		mutant{name: "renewals count before replicas have them", file: "redislock/grant.go",
			old: "g.s.server.RunReplicated(ctx, extendScript", new: "g.s.server.Run(ctx, extendScript", pkg: pkg, test: "TestWaitReplicas"},
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
