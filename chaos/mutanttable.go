// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

// mutants are protections, each of which can be taken out of the workers. A run on its store must then
// find two holders.
var mutants = map[string]mutant{
	"trust": {
		why: "a lease is trusted for three times its TTL", store: "redis",
		file: "internal/trust/trust.go", old: "l.since.Add(l.terms.TTL-driver.Drift(l.terms.TTL))", new: "l.since.Add(3*l.terms.TTL)",
		faults: []string{"black hole", "client stopped"},
	},
	"quarantine": {
		why: "a server that has forgotten its leases grants at once", store: "redis",
		file: "redislock/internal/epoch/lua/guard.lua", old: "return math.max(0, till - at)", new: "return 0",
		faults: []string{"kill -9, restart empty", "FLUSHALL"},
	},
	"quorum": {
		why: "a minority of the masters is enough", store: "redlock-5",
		file: "redislock/redlock/round.go", old: "	q := t.d.quorum\n", new: "	q := t.d.quorum - 1\n",
	},
	"flock": {
		why: "the file of a lock is locked in common", store: "directory",
		file: "filelock/flock_unix.go", old: "unix.LOCK_EX|unix.LOCK_NB", new: "unix.LOCK_SH|unix.LOCK_NB",
		faults: []string{"client stopped"},
	},
}
