// SPDX-License-Identifier: Apache-2.0

package mutants

func init() {
	pg := func(name, file, old, new, test string) {
		mutants = append(mutants, mutant{name: "pg: " + name, file: "pglock/" + file, old: old, new: new, pkg: "pglock", test: test})
	}
	pg("a lease is renewed by its id in quarantine", "adopt.go",
		"if left := long(row[1]); left > 0 {", "if left := long(row[1]); left > 0 && false {", "TestAdoptInQuarantine")
	pg("a guard locks nothing", "sql/schema.sql",
		"l.lease = p_lease AND l.tok = p_token FOR KEY SHARE;", "l.lease = p_lease AND l.tok = p_token;", "TestGuard")
	pg("a guard of a reader locks nothing", "sql/schema.sql",
		"AND s.token = p_token FOR KEY SHARE;", "AND s.token = p_token;", "TestGuardSharers")
	pg("a guard does not look at the time", "sql/schema.sql",
		"IF ends IS NULL OR ends <= pawl.us() THEN", "IF ends IS NULL THEN", "TestGuard")
	pg("a guard is only told of the loss", "sql/schema.sql",
		"RAISE 'the lease on % with token % has ended'", "RAISE WARNING 'the lease on % with token % has ended'", "TestGuard")
	pg("a guarded lease is taken over when its time is over", "sql/schema.sql",
		"PERFORM 1 FROM pawl.lock WHERE name = l.name FOR UPDATE SKIP LOCKED;\n    IF FOUND THEN l.lease := NULL; END IF;",
		"l.lease := NULL;", "TestGuard")
	pg("a guarded lease ends with its release", "sql/schema.sql",
		"PERFORM 1 FROM pawl.lock WHERE name = l.name FOR UPDATE SKIP LOCKED;\n    IF FOUND THEN\n      l.lease := NULL; freed := true;\n    END IF;",
		"l.lease := NULL; freed := true;", "TestGuard")
	pg("a guarded lease is handed over without the store", "guard.go",
		"g.spare = 0", "_ = g.spare", "TestGuard")
	pg("the record of a run outlives a crash", "sql/schema.sql",
		"CREATE UNLOGGED TABLE", "CREATE TABLE", "TestModeAfterACrash")
	pg("any server will do for synchronous", "sql/schema.sql",
		"ELSIF e.mode = 'synchronous' AND", "ELSIF e.mode = 'any' AND", "TestModeSynchronous")
	pg("nothing is missing on a promoted replica", "sql/schema.sql",
		"IF m.mode = 'synchronous' AND m.timeline = tl - 1 THEN", "IF true THEN", "TestPromoted")
	pg("an old primary will do", "bind.go",
		"case was.timeline > is.timeline:", "case false:", "TestPromoted")
	pg("a client goes back to the old primary", "pool.go",
		"return check(run{string(res.Rows[0][2]), integer(res.Rows[0][3])})", "return nil", "TestPromoted")
	pg("a host that is silent keeps a client from the next", "pool.go",
		"p.timeout/hosts(config))", "p.timeout)", "TestSilentHost")
	pg("renewals go on at an old primary", "sql/schema.sql",
		"IF is_open.code <> 1 THEN\n    code := is_open.code; max_ttl := is_open.max_ttl;", "IF is_open.code = -5 THEN\n    code := is_open.code; max_ttl := is_open.max_ttl;", "TestPromoted")
	pg("a crash ends the quarantine of a promotion", "sql/schema.sql",
		"IF m.mode <> 'async' AND current_setting('fsync') = 'on' THEN e.closed := m.closed; END IF;",
		"IF m.mode <> 'async' AND current_setting('fsync') = 'on' THEN e.closed := 0; END IF;", "TestQuarantineOutlives")
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
	pg("requests wait for one that is stuck", "batch.go",
		"\t\tif mine {\n\t\t\tc.landed(send)", "\t\tif false {\n\t\t\tc.landed(send)", "TestBatch")
	pg("the first of a batch takes the turn of the others along", "batch.go",
		"if i == 0 && len(c.next) > 0 {", "if false {", "TestBatch")
	pg("renewals wait for one whose row somebody has", "sql/schema.sql",
		"l.lease = p_leases[i] FOR NO KEY UPDATE SKIP LOCKED;", "l.lease = p_leases[i] FOR NO KEY UPDATE;", "TestRenewTogether")
	pg("the time is that of the request", "sql/schema.sql",
		"$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$", "$$ SELECT (extract(epoch FROM now()) * 1000000)::bigint $$", "TestClockAfterTheRow")
	pg("no tombstone counts", "sql/schema.sql",
		"IF NOT FOUND THEN RETURN; END IF;\n      UPDATE", "RETURN;\n      UPDATE", "TestLateAttempt")
	pg("statements are prepared through a pooler", "pool.go",
		"case c.pooled:", "case false:", "TestPooled")
	pg("waiters of clients that are gone stay", "sql/schema.sql",
		"IF w.looks IS NULL AND NOT pawl.hears(w.client) OR w.looks <= at THEN", "IF w.looks <= at THEN", "TestTidy")
	pg("all waiters that are gone leave in one call", "sql/schema.sql",
		"EXIT WHEN gone = 1000;", "", "TestDeadWaiters")
	pg("a lock stays for each waiter that is gone", "sql/schema.sql",
		"THEN NOT pg_advisory_unlock(", "THEN false AND pg_advisory_unlock(", "TestDeadWaiters")
	pg("waiters that are gone are in the way until somebody looks again", "sql/schema.sql",
		"IF l.waiters < was.waiters THEN rank := 0; END IF;", "", "TestDeadWaiters")
}
