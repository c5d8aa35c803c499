// SPDX-License-Identifier: Apache-2.0

package mutants

// Leases that a client keeps when nobody uses them.
func init() {
	const trust, idle, line = pureTrust + "/trust.go", pureTrust + "/idle.go", pureLine + "/line.go"
	for _, m := range []mutant{
		{name: "enumerated: what is kept is renewed", file: idle, old: "idle.renewAt, idle.suspectAt, idle.terms.NoRenew = Never, Never, true", new: "idle.suspectAt = Never"},
		{name: "enumerated: what is kept has no end", file: idle, old: "min(now.Add(l.terms.Idle), l.turn, half)", new: "min(l.turn, half)"},
		{name: "enumerated: what is kept is kept beyond half of its TTL", file: idle, old: "min(now.Add(l.terms.Idle), l.turn, half)", new: "min(now.Add(l.terms.Idle), l.turn, half.Add(l.terms.TTL/2))"},
		{name: "enumerated: what others want is kept", file: idle, old: "\tl.alone = false\n", new: ""},
		{name: "enumerated: what others wait for is kept", file: trust, old: "g.Recalls && !g.Others", new: "g.Recalls"},
		{name: "enumerated: what is being given back is used again", file: trust, old: "l.idle && (l.holds == 0 || ", new: "l.idle && ("},
		{name: "enumerated: what others want is used again", file: trust, old: "!l.alone || now >= l.least", new: "now >= l.least"},
		{name: "enumerated: what is kept is used too late", file: trust, old: "!l.alone || now >= l.least", new: "!l.alone"},
		{name: "enumerated: what is kept is used with little left", file: trust, old: "if !t.NoRenew && !l.idle {", new: "if !t.NoRenew {"},
		{name: "enumerated: what is kept is kept as if for MinHold", file: trust, old: "now < l.Deadline() && !l.idle", new: "now < l.Deadline()"},
	} {
		m.pkg, m.test = pureTrust, allEvents
		mutants = append(mutants, m)
	}
	for _, m := range []mutant{
		{name: "enumerated: what is kept overtakes a call at the store", file: line, old: "l.holder == h && l.asking == 0 && l.first == nil", new: "l.holder == h && l.first == nil"},
		{name: "enumerated: what is kept overtakes a waiter", file: line, old: "l.holder == h && l.asking == 0 && l.first == nil", new: "l.holder == h && l.asking == 0"},
	} {
		m.pkg, m.test = pureLine, allCalls
		mutants = append(mutants, m)
	}
	for _, m := range []mutant{
		{name: "who keeps a name does not hear of others", file: "wait.go", old: "\tc.heed(l)\n", new: "", test: "TestKeepIdleGivesWayToOthers"},
		{name: "what nobody uses counts as held", file: "internal/participant/acquire.go", old: "recallWithin / 400; mayBeKept(err) &&", new: "recallWithin / 400; mayBeKept(nil) &&", test: "TestKeepIdleGivesWayToOthers"},
		{name: "others wait for ever when a recall is lost", file: trust, old: "l.turn = now.Add(t.TTL) // others", new: "l.turn = Never // others", test: "TestKeepIdleRecallIsLost"},
		{name: "Close leaves what is kept", file: trust, old: "now < l.Deadline() && !l.idle", new: "now < l.Deadline()", test: "TestKeepIdleIsGivenBackByClose"},
		{name: "a late release of what was kept gives back what is used", file: "internal/trust/trust.go", old: "\tl.holds = 0 // a Release of", new: "\t// a Release of", test: "TestKeepIdleReleaseIsLate"},
		{name: "TryAcquire waits for a store that hangs to take back what was kept", file: "acquire.go", old: "\t\tcase <-here.returned:\n\t\tcase <-ctx.Done():\n\t\t\treturn nil, ctx.Err()\n", new: "\t\tcase <-here.returned:\n", test: "TestKeepIdleGivenBackToASilentStore"},
		{name: "TryAcquire asks for as long as a pause was", file: "internal/participant/acquire.go", old: "min(4*asked.Sub(began), time.Second)", new: "4*asked.Sub(began)", test: "TestKeepIdleTryAfterAPause"},
		{name: "a call waits for what its own client keeps", file: "wait.go", old: "l != nil && l.idle {\n\t\tc.returnLater(l)", new: "l != nil && l.idle && false {\n\t\tc.returnLater(l)", test: "TestKeepIdleThatDoesNotFit"},
		{name: "what is kept is told twice", file: "lease.go", old: "if !l.idle { // else it was", new: "if true { // else it was", test: "TestKeepIdleIsTold"},
	} {
		m.pkg = "."
		mutants = append(mutants, m)
	}
	for _, m := range []mutant{
		{name: "whoever wants what is kept does not say so", file: "redislock/lua/acquire.lua", old: "if value and not own and string.find(value, KEEPS, 1, true) then", new: "if false then", test: "TestKeepIdle"},
		{name: "what is kept is kept unheard", file: "redislock/internal/epoch/listen.go", old: "\t\ts.Missed(s.Conn)\n", new: "\t\t_ = s.Conn\n", test: "TestKeepIdle"},
	} {
		m.pkg = "redislock"
		mutants = append(mutants, m)
	}
	for _, m := range []mutant{
		{name: "pg: whoever wants what is kept does not say so", file: "pglock/sql/schema.sql", old: `IF l.lease IS NOT NULL AND l.record LIKE`, new: `IF false AND l.record LIKE`, test: "TestKeepIdle"},
		{name: "pg: what is kept is kept unheard", file: "pglock/hear.go", old: "\ts.events.Put(driver.Event{Kind: driver.Missed})\n", new: "", test: "TestKeepIdleUnheard"},
		{name: "pg: what is kept is kept through a pooler", file: "pglock/ask.go", old: "if session != 0 {\n\t\tans.Session", new: "if true {\n\t\tans.Session", test: "TestKeepIdlePooled"},
	} {
		m.pkg = "pglock"
		mutants = append(mutants, m)
	}
	for _, m := range []mutant{
		{name: "etcd: whoever wants what is kept does not say so", file: "etcdlock/ask.go", old: "\t\t\t\tl.s.askBack(ctx, q.kept())\n", new: "", test: "TestKeepIdleAsk"},
		{name: "etcd: an ask binds the key to nothing", file: "etcdlock/recall.go", old: "clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease()", new: "clientv3.WithIgnoreValue()", test: "TestKeepIdleAsk"},
		{name: "etcd: an ask empties the record", file: "etcdlock/recall.go", old: "clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease()", new: "clientv3.WithIgnoreLease()", test: "TestKeepIdleAsk"},
		{name: "etcd: a late ask is for the next lease", file: "etcdlock/recall.go", old: `If(clientv3.Compare(clientv3.ModRevision(key), "=", kv.ModRevision)).`, new: `If().`, test: "TestKeepIdleLateAsk"},
		{name: "etcd: an ask makes a renewal fail", file: "etcdlock/rewrite.go", old: "l.mod = max(l.mod, l.recall.seen())", new: "l.mod = max(l.mod, 0)", test: "TestKeepIdleAsk"},
		{name: "etcd: Break waits for those who ask", file: "etcdlock/inspect.go", old: `clientv3.Compare(clientv3.LeaseValue(string(victim.kv.Key)), "=", clientv3.LeaseID(victim.kv.Lease))`, new: `clientv3.Compare(clientv3.ModRevision(string(victim.kv.Key)), "=", victim.kv.ModRevision)`, test: "TestBreakWhileAsked"},
		{name: "etcd: a waiter is not heard", file: "etcdlock/recall.go", old: "ok && kv.CreateRevision > r.rev", new: "ok && false", test: "TestKeepIdleBeforeTheWatch"},
		{name: "etcd: what comes before the watch is not heard", file: "etcdlock/recall.go", old: "resp.Created && resp.Header.Revision > r.rev", new: "resp.Created && false", test: "TestKeepIdleBeforeTheWatch"},
		{name: "etcd: what is kept is kept unheard", file: "etcdlock/recall.go", old: "\t\t\t\t\tl.s.tell(missed(map[string]bool{l.name: true}))\n", new: "", test: "TestKeepIdleWatchIsCut"},
		{name: "etcd: a keeper asks itself", file: "etcdlock/recall.go", old: "string(kv.Value) == r.value && kv.Lease == r.lease", new: "kv.Lease == r.lease", test: "TestKeepIdleOwnWrites"},
		{name: "etcd: a renewal is an ask", file: "etcdlock/recall.go", old: "string(kv.Value) == r.value && kv.Lease == r.lease", new: "string(kv.Value) == r.value", test: "TestKeepIdleOwnWrites"},
		{name: "etcd: what others wait for is kept", file: "etcdlock/look.go", old: "seen.behind = len(", new: "_ = len(", test: "TestKeepIdleBehind"},
		{name: "etcd: nothing is kept", file: "etcdlock/lease.go", old: "l.recall == nil || l.recall.behind", new: "true", test: "TestKeepIdleManyWant"},
		{name: "etcd: a keeper watches for ever", file: "etcdlock/recall.go", old: "\t\tr.stop()\n", new: "\t\t_ = r.stop\n", test: "TestKeepIdleEndsWatches"},
	} {
		m.pkg = "etcdlock"
		mutants = append(mutants, m)
	}
}
