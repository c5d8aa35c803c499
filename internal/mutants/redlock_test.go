// SPDX-License-Identifier: Apache-2.0

package mutants

func init() {
	const pkg = "redislock/redlock"
	mutate := func(name, file, old, new, test string) mutant {
		return mutant{name: "redlock: " + name, file: pkg + "/" + file, old: old, new: new, pkg: pkg, test: test}
	}
	mutants = append(mutants,
		// The count of votes, and of time.
		mutate("a minority is counted", "round.go", "case t.stored.n >= q:", "case t.stored.n >= q-1:", "TestQuorum"),
		mutate("elapsed time is not subtracted", "ask.go",
			"left := trust(since, ttl).Sub(driver.Now())", "left := trust(driver.Now(), ttl).Sub(driver.Now())", "TestElapsed"),
		mutate("trust counts from the answers", "ask.go", "since: since,", "since: driver.Now(),", "TestElapsed"),
		mutate("drift is not subtracted", "round.go", "since.Add(ttl - driver.Drift(ttl))", "since.Add(ttl)", "TestElapsed"),
		mutate("a late vote is counted", "round.go", "time.NewTimer(timeout)", "time.NewTimer(time.Hour)", "TestVotesOfANodeThatHeedsNothing"),
		mutate("one server votes twice", "round.go", "if slices.Contains(v.runs, run) {", `if slices.Contains(v.runs, run+"?") {`, "TestOneServerVotesOnce"),
		mutate("one server is named twice", "nodes.go",
			`s.Run != "" && other != ""`, `s.Run == "" && other != ""`, "TestRefusals/same_server"),

		// What is left behind.
		mutate("no release on failure", "ask.go", "\t\tc.end(\"\")\n\t\tswitch {", "\t\tswitch {", "TestNothingIsLeft"),
		mutate("late proposals are not barred", "claim.go", "Bar: t.unknown || t.pending > 0", "Bar: false", "TestNothingIsLeft"),
		mutate("endings that fail are forgotten", "claim.go", "\t\t\t\tm.owe(e, ttl)\n", "\t\t\t\t_ = ttl\n", "TestUndoneThoughTheEndingFails"),
		mutate("a renewal may follow its release", "claim.go", "\tif c.over {", "\tif false {", "TestRenewalAfterRelease"),
		mutate("a refused ending keeps back the others", "member.go", "\t\t\tm.later(d)\n", "\t\t\t_ = m.later\n", "TestRefusedEnding"),
		mutate("late requests are forgotten with the TTL", "server.go", "max(n.server.Limit.Longest(), underWay)", "n.server.Limit.Longest()", "TestLateProposal"),
		mutate("requests to a silent node pile up", "member.go",
			"m.silent >= silentAfter && m.busy >= silentBusy", "m.silent < 0", "TestSilentNode"),
		mutate("no random delay", "pace.go", "return least + d.upTo(min(width, ttl/4))", "return least + d.upTo(0*min(width, ttl/4))", "TestCrowd"),

		mutate("who waits wakes itself", "wait.go", "} else if shut > 0 {", "} else if shut > 0 && false {", "TestOneClosedNode"),

		mutate("an outage is never told", "wait.go", "f.kind == silent && !s.heard", "f.kind == silent && false", "TestOutageThatLooksHeld"),
		mutate("an outage is not borne", "wait.go", "f.kind == silent && !s.heard", "f.kind == silent", "TestOutageWhileWaiting"),

		// Extension.
		mutate("extension without a quorum", "round.go", "case t.has.n >= t.d.quorum:", "case t.has.n >= 1:", "TestExtendNeedsAQuorum"),
		mutate("extension after the end", "grant.go", "case driver.Now() >= g.until:", "case g.until < 0:", "TestNoExtensionAfterTheEnd"),
		mutate("extension that ends after the end", "grant.go",
			"now >= g.until || now >= trust(since, ttl)", "now >= trust(since, ttl)", "TestExtendWithinTheValidityOnly"),
		mutate("no healing after a hand-over", "claim.go", "if mode == Take {", "if mode >= Take {", "TestHealAfterPass"),
		mutate("a broken lease is healed", "grant.go", "if len(t.ended) > 0 {", "if len(t.ended) > 99 {", "TestBrokenLeaseIsNotHealed"),

		// Tokens.
		mutant{name: "redlock: a token counts where it is not stored", file: pkg + "/round.go", old: "if v.Stored {", new: "if v.Has {", pkg: pkg, test: "TestTokenOfTwoRounds",
			also: []edit{{pkg + "/ask.go", "t.over >= token {", "false {"}}}, // which would notice it, too
		mutate("equal tokens of two leases", "lua/propose.lua",
			"tonumber(token) > tonumber(string.match", "tonumber(token) >= tonumber(string.match", "TestScriptsDoWhatNodeSays"),
		mutate("equal tokens of two leases that share", "lua/propose.lua",
			"tonumber(token) > tonumber(last) or", "tonumber(token) >= tonumber(last) or", "TestScriptsDoWhatNodeSays"),
		mutate("a token is written back if the lock is still mine", "lua/propose.lua",
			"and owner == lease\n", "and owner == lease or owned(value, lease)\n", "TestScriptsDoWhatNodeSays"),

		mutate("a round is won below a floor that it heard of", "ask.go", "t.over >= token {", "false {", "TestNoRoundIsWonBelowAFloorHeardOf"),
		mutate("who has stored a token is not waited for", "ask.go", "min(timeout, driver.Now().Sub(since))", "min(0, driver.Now().Sub(since))", "TestNoRoundIsWonBelowAFloorHeardOf"),
		mutate("tokens beyond 2^53", "ask.go", "case now > MaxToken:", "case now > 2*MaxToken:", "TestClockOfTheYear2256"),
		mutate("scripts store tokens beyond 2^53", "lua/propose.lua", "tonumber(token) <= LARGEST and", "", "TestTokenBeyond"),
		mutate("scripts heal with tokens beyond 2^53", "lua/propose.lua", "if tonumber(token) > LARGEST then", "if false then", "TestTokenBeyond"),
		mutate("failed attempts stop healing", "lua/end.lua", "if owner == lease then", "if false then", "TestScriptsDoWhatNodeSays"),
		mutate("leases that were held overtake nobody", "claim.go", "Held: c.held", "Held: false", "TestFailedAttemptsStopNoHealing"),
		mutate("a failed attempt lets the overtaken back in", "lua/common.lua", "kind == 'x' and before or token", "kind == 'x' and '0' or token", "TestFloorBehindAFailedAttempt"),

		mutate("a reader's floor of a former version is a writer's", "lua/common.lua", "if writer == '' then writer = token end", "writer = token", "TestFloorsOfFormerVersions"),
		mutate("the end of a lease takes a floor of a former version back", "lua/common.lua", "return token, lease, token, writer, token, writer", "return token, lease, token, writer, '0', '0'", "TestFloorsOfFormerVersions"),
		mutate("a reader is told another floor of a former version", "reply.go", "case len(f) == 3:", "case len(f) == 9:", "TestFloorsOfFormerVersions"),

		mutate("the clock is read once for both rounds", "ask.go", "return max(now, s.floor+1), nil",
			"if s.floor > 0 {\n\t\tnow = 0\n\t}\n\treturn max(now, s.floor+1), nil", "TestClockIsReadForEachRound"),
		mutate("renewals are trusted from the answer", "grant.go", "return since, g.extended(since, ttl)",
			"since = driver.Now()\n\treturn since, g.extended(since, ttl)", "TestRenewalIsTrustedFromItsSending"),
		mutate("a later answer ends the doubt about an earlier request", "claim.go", "t.unknown = t.unknown || err != nil",
			"t.unknown = err != nil", "TestDoubtOutlivesLaterAnswers"),
		mutant{name: "pawl: the scheduler sleeps through a suspend", file: "internal/schedule/schedule.go",
			old: "min(s.items[0].due, now.Add(maxSleep))", new: "s.items[0].due", pkg: ".", test: "TestSchedulerLooksEverySecond"},
		mutant{name: "redislock: the floors of former redlocks are no numbers", file: "redislock/lua/queue.lua",
			old: "string.match(floor, '^(%d+) ')", new: "string.match(floor, '^(%d+) %S+ %a %d+ %d+$')", pkg: pkg, test: "TestFloorsOfEachOther"},

		// Nodes that are silent, or far away.
		mutate("a server that hung is taken for a far one", "trip.go", "min(trips, maxTrips)", "max(trips, 0*maxTrips)", "TestHangIsNoRoundTrip"),
		mutate("Close waits for an answer of a server that is silent", "server.go", "if n.deaf && n.server.Ours() {", "if n.deaf && !n.server.Ours() {", "TestServersFallSilent"),
		mutate("far nodes have no more time than near ones", "trip.go", "5*time.Millisecond, min(trips, maxTrips))", "5*time.Millisecond, 0*trips)", "TestFarNodes"),
		mutate("a longer way is never found out", "round.go", "\t\t\t\td.probe()\n", "\t\t\t\t_ = d.probe\n", "TestFarNodes"),
		mutate("all wait for silent nodes", "trip.go", "!heard[i] && !m.quiet() {", "!heard[i] && (true || !m.quiet()) {", "TestSilentMinorityCostsOneNodeTimeout"),
		mutate("Close waits for silent nodes", "driver.go", "time.AfterFunc(d.grace(idle, minDebtPause), d.cut)", "time.AfterFunc(time.Hour, d.cut)", "TestSilentMinorityCostsOneNodeTimeout"),
		mutant{name: "redlock: a first attempt at a hung majority is repeated", file: "attempt.go",
			old: "contact || !errors.Is(err, driver.ErrSilent)", new: "contact || true || !errors.Is(err, driver.ErrSilent)", pkg: pkg, test: "TestHungMajority"},

		// The scripts.
		mutate("no owner compare", "lua/end.lua",
			"if owned(known[i], ARGV[4 + i]) and", "if known[i] and", "TestScriptsDoWhatNodeSays"),
		mutate("no owner compare beside a mark", "lua/end.lua",
			"if owned(value, lease) then", "if value then", "TestScriptsDoWhatNodeSays"),
		mutate("no quarantine", "lua/propose.lua", "if shut > 0 or", "if", "TestCrashedNode"),
		mutate("a superseded lease is healed", "lua/propose.lua", "has = tonumber(token) >=", "has = true or tonumber(token) >=", "TestScriptsDoWhatNodeSays"),
		mutate("a hand-over revives", "lua/propose.lua", "not heir and from ~= '' or", "", "TestScriptsDoWhatNodeSays"),
		mutate("a broken lease leaves no mark", "server.go", `if e.Bar || e.News != "" {`, "if e.Bar {", "TestScriptsDoWhatNodeSays"),
		mutate("a late extension shortens", "lua/propose.lua",
			"px = math.max(px, redis.call('PTTL', lock))", "", "TestConformance3/renewal-never-shortens"),
		mutate("no extension without memory", "lua/propose.lua",
			"  redis.call('PEXPIRE', lock, millis(math.max(till, live[#live] or 0), at))\n", "", "TestServersWithoutMemory"),

		// Readers and writers.
		mutate("readers beside a writer", "lua/propose.lua",
			"not value and (#live == 0 or shared)", "(not value and #live == 0 or shared)", "TestScriptsDoWhatNodeSays"),
		mutate("a writer beside readers", "lua/propose.lua", "(#live == 0 or shared)", "true", "TestScriptsDoWhatNodeSays"),
		mutate("a late renewal shortens a reader's lock", "lua/propose.lua",
			"till = math.max(till, at + px * 1000)", "till = at + px * 1000", "TestScriptsDoWhatNodeSays"),
		mutate("a reader is healed whom a writer has overtaken", "lua/propose.lua",
			"tonumber(shared and writer or stands)", "tonumber(shared and 0 or stands)", "TestScriptsDoWhatNodeSays"),
		mutate("readers overtake each other", "lua/propose.lua", "tonumber(shared and writer or stands)", "tonumber(stands)", "TestScriptsDoWhatNodeSays"),
		mutate("wishes are not heard", "lua/propose.lua", "has = not shared or wished(wishes, at) == 0", "has = true", "TestScriptsDoWhatNodeSays"),
		mutate("a downgrade leaves wishes", "lua/propose.lua", "redis.call('DEL', lock, wishes)", "redis.call('DEL', lock)", "TestScriptsDoWhatNodeSays"),
		mutate("a downgrade wakes nobody", "lua/propose.lua", "if value then wake(lock, listeners, channel) end", "", "TestListen"),
		mutate("a reader that has ended keeps writers out", "lua/state.lua", "if till > at then", "if till > 0 then", "TestConformance3/expiry-of-one-reader-spares-the-others"),
		mutate("the key outlives the readers", "lua/end.lua",
			"if mine and left > 0 then redis.call('PEXPIRE', lock, millis(left, at)) end", "", "TestExpiredReadersFreeTheKey"),
		mutate("a writer's release leaves wishes", "lua/end.lua",
			"if held == '1' then free[#free + 1] = KEYS[3 * n + 1 + i] end", "", "TestWishesEndWithTheWriter"),
		mutate("a writer's release beside listeners leaves wishes", "lua/end.lua",
			"redis.call('DEL', lock, wishes)", "redis.call('DEL', lock)", "TestRequestsInOneCall"),
		mutate("who listens is not told", "lua/end.lua", "not (busy and (", "not (false and (", "TestListen"),
		mutate("a free lock is taken in quarantine", "lua/propose.lua",
			"and closed(epoch, known[1], at, ttl) == 0 then", "then", "TestCrashedNode"),
		mutant{name: "redlock: nodes grant whatever set of them a client has", file: "redislock/internal/epoch/lua/guard.lua",
			old: "return set ~= '' and not (", new: "return false and not (", pkg: "redislock/redlock", test: "TestChangeNodes"},
		mutate("a client of former nodes renews its leases", "lua/propose.lua",
			"if boot ~= '' and stranger(known[1] or '') then return {-1} end", "", "TestChangeNodes"),
		mutate("new nodes are accepted while leases of the old last", "change.go",
			"time.After(ttl + driver.Drift(ttl))", "time.After(0 * ttl)", "TestChangeNodes"),
		mutant{name: "redlock: new nodes are accepted while leases from before a shorter MaxTTL last", file: "redislock/internal/epoch/limit.go",
			old: "max(l.own, l.learnt.TTL, l.rest())", new: "max(l.own, l.learnt.TTL)", pkg: "redislock/redlock", test: "TestChangeNodesAfterShorterMaxTTL"},
		mutate("sets of nodes are joined that go with one of the two", "change.go",
			"s.Meets(a) && s.Meets(b) {", "s.Meets(a) {", "TestJointSets"),
		mutant{name: "redlock: any quorum will do", file: "redislock/internal/epoch/set.go",
			old: " && set.Quorum == g.quorum", new: "", pkg: "redislock/redlock", test: "TestOtherSet"},
		mutant{name: "redlock: a new node is taken for one that has forgotten", file: "redislock/internal/epoch/set.go",
			old: "if g.strange(node) {", new: "if g.addrs == nil {", pkg: "redislock/redlock", test: "TestOtherSet"},
		mutant{name: "redlock: nobody is told of a node that is in no set", file: "redislock/redlock/member.go",
			old: "if !m.ignored.Swap(true) {", new: "if m.ignored.Swap(true) {", pkg: "redislock/redlock", test: "TestOtherSet"},
		mutant{name: "redlock: a wrong password is an outage", file: "redislock/redlock/misses.go",
			old: "return storekit.OfKind(m.kind(), ", new: "return storekit.OfKind(nil, ", pkg: "cmd/pawl", test: "TestRefusedByRedis"},
		mutant{name: "redlock: a majority that has forgotten MaxTTL is right", file: "redislock/redlock/ask.go",
			old: "disagreement(); no != nil {", new: "disagreement(); no != nil && t == nil {", pkg: "redislock/redlock", test: "TestMaxTTLIsAgreed"},
		mutate("a lock that others share is taken for free", "lua/propose.lua", "ttl, 'NX')", "ttl)", "TestScriptsDoWhatNodeSays"),

		// Requests that are one call.
		mutate("two get one lock in one call", "lua/propose.lua", "ttl, 'NX')", "ttl)", "TestRequestsInOneCall"),
		mutate("who looks at one of several locks sees the first", "lua/propose.lua",
			"n == 1 and known or", "known or", "TestRequestsInOneCall"),
		mutate("who listens to one of several locks is not told", "lua/end.lua",
			"redis.call('EXISTS', KEYS[2 * n + 1 + i]) == 1", "false", "TestRequestsInOneCall"),
		mutate("a lock was had twice", "lua/end.lua", "and not free[lock] and", "and", "TestRequestsInOneCall"),
		mutant{name: "redlock: a lock of another program hurts the others", file: "redislock/internal/epoch/lua/each.lua",
			old: "if n == 1 then", new: "if n > 0 then", pkg: pkg, test: "TestRequestsInOneCall"},

		mutate("nodes remember leases that were short", "claim.go", "if t.pending > 0 && !t.unknown && c.held {", "if false {", "TestShortLease"),
		mutate("a writer that waits does not say so", "wait.go", "\tif !s.readers {", "\tif true {", "TestStreamOfReaders"),
		mutate("a wish stays when its writer gives up", "wait.go", "\tif !s.wished {", "\tif true {", "TestWishOfTheDead"),
		mutate("a wish overtakes the one before it", "wait.go", "\t\t\t\tcase <-before:\n", "\t\t\t\tcase <-before:\n\t\t\t\tdefault:\n", "TestGiveUpWhileLooking"),
		mutate("a wish lasts for an hour", "wait.go", "min(s.req.TTL, 3*lookEvery)", "time.Hour", "TestWishOfTheDead"),
		mutate("a writer makes way for the readers that wait for it", "wait.go",
			"waiters = min(waiters, st.Wishes)", "_ = st.Wishes", "TestStreamOfReaders"),
		mutate("a writer rests before it says that it waits", "wait.go", "\tif s.readers && !s.wished {\n", "\tif false {\n", "TestStreamOfReaders"),
		mutate("a wish looks like a free node", "round.go", "case t.shared && v.Wished > 0:", "case false:", "TestWishOfTheDead"),
		mutate("a loss behind a wish is told late", "round.go", "\t\t\tt.free++\n", "\t\t\t_ = t.free\n", "TestLossBehindAWish"),
		mutate("renewals after a downgrade ask for all", "claim.go", "p.Shared = c.shared", "p.Shared = c.shared && mode == Take", "TestDowngradeInPart"),

		// The simulator's nodes are no others.
		mutant{name: "sim: a node heals nobody whom a reader has overtaken", file: "sim/node.go",
			old: "p.Token >= s.floor.writer", new: "p.Token > s.floor.writer", pkg: "sim", test: "TestNodesAnswerAsServersDo"},
		mutant{name: "sim: a node forgets the writers' floor", file: "sim/named.go",
			old: "*f = floor{p.Token, p.Token, writer, p.Lease, undo}", new: "*f = floor{p.Token, p.Token, 0 * writer, p.Lease, undo}", pkg: "sim", test: "TestNodesAnswerAsServersDo"},
	)
}
