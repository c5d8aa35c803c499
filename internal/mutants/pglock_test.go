// SPDX-License-Identifier: Apache-2.0

package mutants

func init() {
	pg := func(name, file, old, new, test string) {
		mutants = append(mutants, mutant{name: "pg: " + name, file: "pglock/" + file, old: old, new: new, pkg: "pglock", test: test})
	}
	mutants = append(mutants, mutant{name: "pg: a lease is renewed by its id in quarantine", file: "internal/participant/adopt.go",
		old: "if info.Closed > 0 {", new: "if info.Closed > 0 && false {", pkg: "pglock", test: "TestAdoptInQuarantine"})
	pg("whoever may not read the views of the server sees no leases", "sql/schema.sql",
		"EXCEPTION WHEN insufficient_privilege THEN\n  RETURN;\nEND $$;", "END $$;", "TestClosedViews")
	pg("a guard locks nothing", "sql/schema.sql",
		"l.lease = p_lease AND l.tok = p_token FOR KEY SHARE;", "l.lease = p_lease AND l.tok = p_token;", "TestGuard")
	pg("a guard of a reader locks nothing", "sql/schema.sql",
		"AND s.token = p_token FOR KEY SHARE;", "AND s.token = p_token;", "TestGuardSharers")
	pg("a guard does not look at the time", "sql/schema.sql",
		"IF ends IS NULL OR ends <= pawl.us() THEN", "IF ends IS NULL THEN", "TestGuard")
	pg("a transaction is committed although its guard has failed", "guard.go",
		"	err := t.exec(ctx, fails)\n", "	var err error = pgx.ErrTxClosed\n", "TestGuardFails")
	pg("a transaction that is busy goes on without a guard", "guard.go",
		"t.abandon(ctx)", "_ = t.abandon", "TestGuardBusy")
	pg("a guard in a savepoint will do", "sql/schema.sql",
		"k.mode = 'ExclusiveLock') > 1", "k.mode = 'ExclusiveLock') > 9", "TestGuardSavepoint")
	pg("a guard within a savepoint does not count that of the transaction", "sql/schema.sql",
		"NOT bool_or(k.locktype = 'advisory' AND", "NOT bool_or(k.locktype = 'advisory' AND false AND", "TestGuardSavepoint")
	pg("one claim follows the other while nobody takes them", "sql/schema.sql",
		"IF missed > 0 AND", "IF false AND", "TestPausedWaiters")
	pg("waiters that were passed keep their places unasked", "sql/schema.sql",
		"q.place < p_place ORDER BY q.place LIMIT 100", "q.place < p_place ORDER BY q.place LIMIT 0", "TestPausedWaiters")
	pg("an idle connection is not looked at", "pool.go",
		"if c.alive(ctx) {", "if true {", "TestIdleClosed")
	pg("a guard is only told of the loss", "sql/schema.sql",
		"RAISE 'the lease on % with token % has ended'", "RAISE WARNING 'the lease on % with token % has ended'", "TestGuard")
	pg("a guarded lease is taken over when its time is over", "sql/schema.sql",
		"PERFORM 1 FROM pawl.lock WHERE name = l.name FOR UPDATE SKIP LOCKED;\n    IF FOUND THEN l.lease := NULL; END IF;",
		"l.lease := NULL;", "TestGuard")
	pg("a guarded lease ends with its release", "sql/schema.sql",
		"PERFORM 1 FROM pawl.lock WHERE name = l.name FOR UPDATE SKIP LOCKED;\n    IF FOUND THEN\n      l.lease := NULL; freed := true;\n    END IF;",
		"l.lease := NULL; freed := true;", "TestGuard")
	pg("when a lease ends is told by the server's clock", "inspect.go",
		"h.Expires = now.Add(h.Expires.Sub(time.UnixMicro(n.At)))", "_ = now", "TestInspectExpires")
	pg("nobody is told what a guard keeps", "sql/schema.sql",
		"  PERFORM pg_advisory_xact_lock_shared(pawl.mark(p_lease));\n", "", "TestGuardIsShown")
	pg("a list leaves out what only a guard keeps", "sql/schema.sql",
		"(k.until > t.at OR pawl.mark(k.lease) IN (SELECT g.mark FROM guards g))", "k.until > t.at", "TestGuardIsShown")
	pg("whoever asks is not told what a guard keeps", "sql/schema.sql",
		"WHERE h.until > at OR h.tx IS NOT NULL);", "WHERE h.until > at);", "TestGuardIsShown")
	mutants = append(mutants, mutant{name: "pg: a lease that has ended and is guarded is taken over by its id", file: "internal/participant/adopt.go",
		old: " && h.Transaction == nil", new: "", pkg: "pglock", test: "TestGuardIsShown"})
	mutants = append(mutants, mutant{name: "pg: a lease that has ended leads as long as a guard keeps the name", file: "observe.go",
		old: " && info.Holders[0].Transaction == nil", new: "", pkg: "pglock", test: "TestGuardTellsWaiters"})
	pg("the record of a run outlives a crash", "sql/schema.sql",
		"CREATE UNLOGGED TABLE", "CREATE TABLE", "TestModeAfterACrash")
	pg("a grant runs what it finds on the search path", "sql/schema.sql",
		"OUT place bigint)\nLANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$\nDECLARE l pawl.lock; was", "OUT place bigint)\nLANGUAGE plpgsql AS $$\nDECLARE l pawl.lock; was", "TestSearchPath")
	pg("a guard runs what it finds on the search path", "sql/schema.sql",
		"RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$\nDECLARE ends bigint;", "RETURNS void LANGUAGE plpgsql AS $$\nDECLARE ends bigint;", "TestSearchPath")
	pg("a schema of another version will do", "bind.go",
		"have != version {", "have < version {", "TestOtherVersion")
	pg("any server will do for synchronous", "sql/schema.sql",
		"WHEN e.mode = 'synchronous' AND", "WHEN e.mode = 'any' AND", "TestModeSynchronous")
	pg("nothing is missing on a promoted replica", "sql/schema.sql",
		"IF m.mode = 'synchronous' AND m.timeline = tl - 1 THEN", "IF true THEN", "TestPromoted")
	pg("an old primary will do", "bind.go",
		"case was.timeline > is.timeline:", "case false:", "TestPromoted")
	pg("a client goes back to the old primary", "pool.go",
		"return check(run{string(res.Rows[0][2]), int(timeline)})", "_ = timeline\n\treturn nil", "TestPromoted")
	pg("a host that is silent keeps a client from the next", "pool.go",
		"p.timeout/hosts(config))", "p.timeout)", "TestSilentHost")
	pg("renewals go on at an old primary", "sql/schema.sql",
		"IF is_open.code <> 1 THEN\n    code := is_open.code; max_ttl := is_open.max_ttl;", "IF is_open.code = -5 THEN\n    code := is_open.code; max_ttl := is_open.max_ttl;", "TestPromoted")
	pg("a crash ends the quarantine of a promotion", "sql/schema.sql",
		"IF m.on_disk AND current_setting('fsync') = 'on' THEN e.closed := least(m.closed, e.closed); END IF;", "IF m.on_disk AND current_setting('fsync') = 'on' THEN e.closed := 0; END IF;", "TestQuarantineOutlives")
	pg("whether the disk was waited for is asked after the crash", "sql/schema.sql",
		"IF m.on_disk AND current_setting('fsync') = 'on' THEN e.closed", "IF m.mode <> 'async' AND current_setting('fsync') = 'on' THEN e.closed", "TestFsyncOff")
	pg("what says that the disk was waited for is believed without fsync", "sql/schema.sql",
		"IF m.on_disk AND current_setting('fsync') = 'on' THEN e.closed", "IF m.on_disk THEN e.closed", "TestFsyncOff")
	pg("a server that stops waiting for the disk is not noticed", "sql/schema.sql",
		" AND (NOT e.on_disk OR current_setting('fsync') = 'on')", "", "TestFsyncOff")
	pg("tokens go on by a clock that is behind", "sql/schema.sql",
		"IF m.system IS NOT NULL AND newest > at + 1000000 THEN", "IF false THEN", "TestClockBehind")
	pg("the token of a row that is gone is forgotten", "sql/schema.sql",
		"UPDATE pawl.meta SET floor = top WHERE floor < top;", "", "TestClockSetBack")
	pg("a lease lasts as long as the clock was set back", "sql/schema.sql",
		"IF l.lease IS NOT NULL AND l.until > latest THEN", "IF false THEN", "TestClockSetBack")
	pg("readers last as long as the clock was set back", "sql/schema.sql",
		"IF l.sharers > 0 AND l.soonest > latest THEN", "IF false THEN", "TestClockSetBack")
	pg("the record of another server will do", "sql/schema.sql",
		"e.timeline = pawl.timeline() AND e.started = pg_postmaster_start_time()\n", "e.timeline = pawl.timeline()\n", "TestRecordOfAnother")
	pg("connections to a server that became read-only stay", "errors.go",
		"case \"25006\", \"55000\": // a replica\n\t\tf.drop = true", "case \"25006\", \"55000\": // a replica\n\t\tf.drop = false", "TestReadOnly")
	pg("what was rolled back is not repeated", "errors.go",
		"f.repeat = true", "f.repeat = false", "TestRolledBack")
	pg("a commit that no replica has confirmed counts", "pool.go",
		"if res.Err == nil && c.notes.unconfirmed != \"\" {", "if false {", "TestUnconfirmed")
	pg("many requests in a call overtake waiters", "sql/schema.sql",
		"l.lease IS NULL AND l.sharers = 0 AND l.waiters = 0 FOR NO KEY UPDATE SKIP LOCKED", "l.lease IS NULL AND l.sharers = 0 FOR NO KEY UPDATE SKIP LOCKED", "TestBatchTakesWhatIsFree")
	pg("many requests in a call get what is held", "sql/schema.sql",
		"AND l.lease IS NULL AND l.sharers = 0 AND l.waiters = 0 FOR NO KEY", "AND l.sharers = 0 AND l.waiters = 0 FOR NO KEY", "TestBatchTakesWhatIsFree")
	pg("many requests in a call wait for a row", "sql/schema.sql",
		"l.sharers = 0 AND l.waiters = 0 FOR NO KEY UPDATE SKIP LOCKED", "l.sharers = 0 AND l.waiters = 0 FOR NO KEY UPDATE", "TestBatchTakesWhatIsFree")
	pg("no tombstone counts for many requests in a call", "sql/schema.sql",
		" AND NOT EXISTS (SELECT FROM pawl.ended d WHERE d.lease = r.lease)", "", "TestBatchTakesWhatIsFree")
	pg("many releases in a call forget the waiters", "sql/schema.sql",
		"AND l.lease = ANY (p_leases) AND l.waiters = 0 AND l.sharers = 0", "AND l.lease = ANY (p_leases) AND l.sharers = 0", "TestBatchGivesBack")
	pg("many releases in a call end what is guarded", "sql/schema.sql",
		"l.sharers = 0 FOR UPDATE SKIP LOCKED) m;", "l.sharers = 0 FOR NO KEY UPDATE SKIP LOCKED) m;", "TestBatchGivesBack")
	mutants = append(mutants, mutant{name: "pg: requests wait for one that is stuck", file: "driver/storekit/batch.go",
		old: "b.next[0] == m {", new: "b.next[0] == m && false {", pkg: "driver/storekit", test: "TestBatch"})
	mutants = append(mutants, mutant{name: "pg: the first of a batch takes the turn of the others along", file: "driver/storekit/batch.go",
		old: "i == 0 && len(b.next) > 0 {", new: "i == 0 && false {", pkg: "driver/storekit", test: "TestBatch"})
	pg("renewals wait for one whose row somebody has", "sql/schema.sql",
		"l.lease = p_leases[i] FOR NO KEY UPDATE SKIP LOCKED;", "l.lease = p_leases[i] FOR NO KEY UPDATE;", "TestRenewTogether")
	pg("the time is that of the request", "sql/schema.sql",
		"FROM pg_catalog.clock_timestamp())", "FROM pg_catalog.now())", "TestClockAfterTheRow")
	pg("no tombstone counts", "sql/schema.sql",
		"IF NOT FOUND THEN RETURN; END IF;\n      UPDATE", "RETURN;\n      UPDATE", "TestLateAttempt")
	pg("statements are prepared through a pooler", "pool.go",
		"case c.pooled:", "case false:", "TestPooled")
	pg("waiters of clients that are gone stay", "sql/schema.sql",
		"IF coalesce(w.looks <= at, NOT pawl.hears(w.client)) THEN", "IF w.looks <= at THEN", "TestTidy")
	pg("all waiters that are gone leave in one call", "sql/schema.sql",
		"EXIT WHEN gone = 1000;", "", "TestDeadWaiters")
	pg("a lock stays for each waiter that is gone", "sql/schema.sql",
		"THEN NOT pg_advisory_unlock(", "THEN false AND pg_advisory_unlock(", "TestDeadWaiters")
	pg("waiters that are gone are in the way until somebody looks again", "sql/schema.sql",
		"IF l.waiters < was.waiters THEN rank := 0; END IF;", "", "TestDeadWaiters")
	pg("many releases in a call end what is another's", "sql/schema.sql",
		"WHERE l.name = ANY (p_names) AND l.lease = ANY (p_leases) AND", "WHERE l.name = ANY (p_names) AND", "TestBatchGivesBack")
	pg("many releases in a call wait for a row", "sql/schema.sql",
		"l.sharers = 0 FOR UPDATE SKIP LOCKED) m;", "l.sharers = 0 FOR UPDATE) m;", "TestBatchGivesBack")
	pg("many requests in a call are granted in quarantine", "sql/schema.sql",
		"IF is_open.code <> 1 OR is_open.closed > pawl.us() THEN RETURN; END IF;", "IF is_open.code <> 1 THEN RETURN; END IF;", "TestShortcuts")
	pg("many requests in a call are granted in another run", "sql/schema.sql",
		"IF is_open.code <> 1 OR is_open.closed > pawl.us() THEN RETURN; END IF;", "IF is_open.closed > pawl.us() THEN RETURN; END IF;", "TestShortcuts")
	pg("many requests in a call get more than MaxTTL", "sql/schema.sql",
		" AND r.ttl <= is_open.max_ttl AND", " AND", "TestShortcuts")
	pg("many requests in a call get what readers have", "sql/schema.sql",
		"l.lease IS NULL AND l.sharers = 0 AND l.waiters = 0 FOR NO KEY", "l.lease IS NULL AND l.waiters = 0 FOR NO KEY", "TestShortcuts")
	pg("an ordinary request is granted in quarantine", "sql/schema.sql",
		"e.closed <= t.at AND ", "", "TestShortcuts")
	pg("an ordinary request is granted for longer than MaxTTL", "sql/schema.sql",
		"AND p_ttl <= e.max_ttl AND", "AND", "TestShortcuts")
	pg("an ordinary request is granted whatever run its client believes in", "sql/schema.sql",
		"e.max_ttl AND e.timeline = p_timeline AND", "e.max_ttl AND", "TestShortcuts")
	pg("an ordinary request is granted on another timeline", "sql/schema.sql",
		"e.timeline = p_timeline AND e.timeline = pawl.timeline() AND e.started = pg_postmaster_start_time()\n        AND CASE", "e.timeline = p_timeline AND e.started = pg_postmaster_start_time()\n        AND CASE", "TestShortcuts")
	pg("an ordinary request is granted with the record of a run before", "sql/schema.sql",
		" AND e.started = pg_postmaster_start_time()\n        AND CASE", "\n        AND CASE", "TestShortcuts")
	pg("an ordinary request is granted beside readers", "sql/schema.sql",
		" AND k.sharers = 0 AND k.waiters = 0\n", " AND k.waiters = 0\n", "TestShortcuts")
	pg("an ordinary request is granted before those that wait", "sql/schema.sql",
		" AND k.sharers = 0 AND k.waiters = 0\n", " AND k.sharers = 0\n", "TestShortcuts")
	pg("an ordinary request is granted while it is held", "sql/schema.sql",
		"k.lease IS NULL AND ", "", "TestShortcuts")
	pg("an ordinary request is granted without a replica", "sql/schema.sql",
		"set_config('synchronous_commit', 'off', true) = 'off' ELSE false END", "set_config('synchronous_commit', 'off', true) = 'off' ELSE true END", "TestShortcuts")
	pg("what is handed over need not be on disk", "sql/schema.sql",
		"is_open := pawl.open(pawl.timeline(), 0);", "SELECT 1 AS code, e.closed INTO is_open FROM pawl.epoch e;", "TestHandOver")
	pg("a lease is handed over in quarantine", "sql/schema.sql",
		"is_open.code = 1 AND is_open.closed <= at THEN l :=", "is_open.code = 1 THEN l :=", "TestHandOver")
	pg("an ordinary release forgets those that wait", "sql/schema.sql",
		"IF waiting = 0 THEN", "IF true THEN", "TestHandOver")
	pg("an ordinary release ends what is guarded", "sql/schema.sql",
		"AND k.sharers = 0 FOR UPDATE SKIP LOCKED;", "AND k.sharers = 0 FOR NO KEY UPDATE SKIP LOCKED;", "TestGuard")
	pg("an ordinary release waits for the disk", "sql/schema.sql",
		"IF fresh THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;\n        UPDATE", "UPDATE", "TestLostRelease")
	pg("many releases in a call wait for the disk", "sql/schema.sql",
		"IF txid_current_if_assigned() IS NULL THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;\n  SELECT array_agg", "SELECT array_agg", "TestLostRelease")
	pg("a release makes a transaction forget what it has changed", "sql/schema.sql",
		"fresh bool := txid_current_if_assigned() IS NULL;", "fresh bool := true;", "TestWhatWaits")
	pg("many releases make a transaction forget what it has changed", "sql/schema.sql",
		"IF txid_current_if_assigned() IS NULL THEN", "IF true THEN", "TestWhatWaits")
	pg("what is handed over is on disk a moment later", "sql/schema.sql",
		"PERFORM pawl.put(pawl.go(l, at, p_claim, false));\n      END IF;", "PERFORM pawl.put(pawl.go(l, at, p_claim, false));\n        PERFORM set_config('synchronous_commit', 'off', true);\n      END IF;", "TestLostRelease")
	mutants = append(mutants, mutant{name: "pg: a client believes a server that has lost its release", file: "internal/participant/lease.go",
		old: "case l.state == ended:", new: "case false:", pkg: "pglock", test: "TestLostRelease"})
	pg("a release that hands over begins as an ordinary one", "sql/schema.sql",
		"      IF waiting = 0 THEN\n        IF fresh THEN", "      PERFORM set_config('synchronous_commit', 'off', true);\n      IF waiting = 0 THEN\n        IF fresh THEN", "TestWhatWaits")
	pg("no release waits for the disk", "sql/schema.sql",
		"IF (SELECT mode FROM pawl.epoch) = 'async' THEN", "IF true THEN", "TestWhatWaits")
	pg("an ordinary token does not grow", "sql/schema.sql",
		"SET tok = greatest(t.at, k.token + 1), token = greatest(t.at, k.token + 1, least(", "SET tok = t.at, token = greatest(t.at, k.token + 1, least(", "TestShortcuts")
	pg("tokens of many requests in a call do not grow", "sql/schema.sql",
		"SET tok = greatest(t, k.token + 1), token = greatest(t, k.token + 1, least(", "SET tok = t, token = greatest(t, k.token + 1, least(", "TestShortcuts")
	pg("a guarded reader is taken out when its time is over", "sql/schema.sql",
		"s.until <= at FOR UPDATE SKIP LOCKED));", "s.until <= at FOR NO KEY UPDATE SKIP LOCKED));", "TestGuardSharers")
	pg("a message of another run is believed", "hear.go",
		"timeline == s.now().timeline {", "timeline >= 0 {", "TestHeard")
	pg("after a new connection nobody asks for the leases", "hear.go",
		"\ts.events.Put(driver.Event{Kind: driver.Missed})\n", "", "TestHeardAnew")
	pg("a shorter renewal counts as one", "sql/schema.sql",
		"until < at + p_ttl;\n      code := 2 - FOUND::int;", "until < at + p_ttl;\n      code := 1;", "TestRenewTogether")
	pg("a waiter that listens again is taken for gone", "sql/schema.sql",
		"AND w.looks IS NULL AND NOT pawl.fits", "AND NOT pawl.fits", "TestListensAgain")
	pg("a waiter polls for ever, as nobody lets it listen", "ask.go",
		"case r.Queue && driver.FailureOf(deaf).Lasting:", "case false:", "TestListenRefused")
	mutants = append(mutants, mutant{name: "pg: a call of many is cut off by none of its callers", file: "driver/storekit/batch.go",
		old: "m.with.gone()", new: "_ = m.with.gone", pkg: "driver/storekit", test: "TestBatchCutOff"})
	mutants = append(mutants, mutant{name: "pg: a caller that goes before a call of many is sent counts as sent", file: "driver/storekit/batch.go",
		old: "b.remind()\n\t\t}\n\t\treturn false", new: "b.remind()\n\t\t}\n\t\treturn true", pkg: "driver/storekit", test: "TestBatch"})
	mutants = append(mutants, mutant{name: "pg: a caller that goes from a call of many leaves its lease", file: "driver/storekit/batch.go",
		old: "Maybe: b.leave(m)}", new: "Maybe: b.leave(m) && false}", pkg: "driver/storekit", test: "TestBatchCutOff"})
	pg("many requests in a call count from the answer", "batch.go",
		"reply{row, sent}", "reply{row, driver.Now()}", "TestBatchUncertain")
	pg("what is refused because of one fails for many", "batch.go",
		"Alone: refused ||", "Alone: refused && false ||", "TestBatchRefused")
	pg("an answer that many have lost is no answer", "batch.go",
		"err == nil && row == nil}", "row == nil}", "TestBatchAnswer")
	pg("that a server has no TLS is told beside what it has said", "dialerror.go",
		"if len(more) > 0 {", "if false {", "TestDialErrors")
	pg("why no connection was made is told for each attempt", "dialerror.go",
		"if slices.Contains(all, why) {", "if false {", "TestDialErrors")
	pg("what was not sent may have been carried out", "errors.go",
		"s.explain(err), true, !notSent(err)", "s.explain(err), true, !pgconn.SafeToRetry(err)", "TestIdleRace")
	mutants = append(mutants, mutant{name: "pg: a turn that was missed is lost", file: "driver/storekit/batch.go",
		old: "\t\tb.pass()\n\t\treturn false", new: "\t\treturn false", pkg: "driver/storekit", test: "TestBatchTurn"})
	mutants = append(mutants, mutant{name: "pg: requests that have time go with the next answer", file: "driver/storekit/batch.go",
		old: "if b.Few == 0 || len(b.next) == 0 {", new: "if len(b.next) == 0 {", pkg: "driver/storekit", test: "TestBatchGathers"})
	mutants = append(mutants, mutant{name: "pg: requests that fill a call wait for nothing", file: "driver/storekit/batch.go",
		old: "len(b.next) == b.Most && b.Few == 0:", new: "false:", pkg: "driver/storekit", test: "TestBatchGathers"})
	pg("a server that takes the client's place is not noticed", "bind.go",
		"case was.system != \"\" && was.system != is.system:", "case false:", "TestReplaced")
	pg("a server that ends the connection has rolled back", "errors.go",
		"return pe.Severity == \"FATAL\" || pe.Severity == \"PANIC\" || strings.HasPrefix", "return strings.HasPrefix", "TestMaybe")
	pg("a shorter MaxTTL counts at once", "sql/schema.sql",
		"THEN greatest(rest, at + m.max_ttl + 1000000) ELSE rest END", "THEN rest ELSE rest END", "TestShorterMaxTTL")
}
