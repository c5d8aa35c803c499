// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

// mutants has the mutants by name. A run of a mutant on any of its stores has to find two holders.
var mutants = map[string]mutant{
	"trust": {
		why:    "a lease is trusted for three times its TTL",
		stores: []string{"redis", "sentinel", "cluster", "redlock-3", "etcd", "zookeeper"},
		edits:  []edit{{"internal/trust/trust.go", "l.since.Add(l.terms.TTL - driver.Drift(l.terms.TTL))", "l.since.Add(3 * l.terms.TTL)"}},
		faults: []string{"black hole", "client stopped"},
	},
	"quarantine": {
		why:    "a server that has forgotten its leases grants at once",
		stores: []string{"redis", "redlock-3"},
		edits:  []edit{{"redislock/internal/epoch/lua/guard.lua", "return math.max(0, till - at)", "return 0"}},
		faults: []string{"kill -9, restart empty", "FLUSHALL", "FLUSHALL of a majority"},
	},
	// This mutant has no stores, because the holder usually learns of the loss before another client
	// gets the lock. Name a store and a seed.
	"promoted": {
		why:    "a replica that was promoted, and may lack the last leases, grants at once",
		edits:  []edit{{"pglock/sql/schema.sql", "e.closed := greatest(at + m.max_ttl, m.rest);", "e.closed := 0;"}},
		faults: []string{"the replica is behind, kill -9, promotion", "black hole", "client stopped"},
	},
	"pattern": {
		why:    "a client with other keys takes the record of the others for its own",
		stores: []string{"redis", "redlock-3"},
		edits: []edit{
			{"redislock/internal/epoch/binding.go", "s.Layout.Version()", `"2"`},
			{"redislock/internal/epoch/pattern.go", "case own == theirs:", "case own != theirs || own == theirs:"},
		},
		faults: []string{"guest: keys of another pattern"},
	},
	"quorum": {
		why:    "a minority of the masters is enough",
		stores: []string{"redlock-5"},
		edits:  []edit{{"redislock/redlock/round.go", "	q := t.d.quorum\n", "	q := t.d.quorum - 1\n"}},
	},
	"handed": {
		why:    "waiters that are passed over are told that they have the lock, and believe it",
		stores: []string{"cluster"},
		edits: []edit{
			{"redislock/lua/queue.lua", "elseif hears(s, client) then", `elseif tell('grant', table.concat({s.lock, digits(upcoming(s.at, s.last)), digits(s.at), s.claim, '-', 0, 0}, ' ')) or hears(s, client) then`},
			{"redislock/hear.go", "at.Runs(run) && ", ""},
			{"redislock/hear.go", "session{from, run}", "session{conn.Session{}, run[:0]}"},
			{"redislock/ask.go", "session{r.from, reply.RunID()}", "session{conn.Session{}, reply.RunID()[:0]}"},
			{"redislock/internal/cluster/subscriptions.go", "if !leads(c.ctx, s) {", "if c.ctx == nil {"},
			{"redislock/internal/cluster/survey.go", "	c.follow()\n", ""},
		},
		faults: []string{"CLUSTER FAILOVER", "CLUSTER FAILOVER FORCE"},
	},
	"leftovers": {
		why:    "a command's lock is given back while what it left behind still works",
		stores: []string{"redis", "directory"},
		edits:  []edit{{"cmd/pawl/internal/run/args.go", "cli.ForEver, exit.Busy, waitLeftovers", "cli.ForEver, exit.Busy, releaseLeftovers"}},
		faults: []string{"guest: commands"},
	},
	"flock": {
		why:    "the file of a lock is locked in common",
		stores: []string{"directory"},
		edits:  []edit{{"filelock/flock_unix.go", "unix.LOCK_EX|unix.LOCK_NB", "unix.LOCK_SH|unix.LOCK_NB"}},
		faults: []string{"client stopped"},
	},
}
