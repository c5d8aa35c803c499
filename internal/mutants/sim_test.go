// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"testing"
)

const (
	round = "redislock/redlock/round.go"
	claim = "redislock/redlock/claim.go"
	ask   = "redislock/redlock/ask.go"
	grant = "redislock/redlock/grant.go"
	node  = "lab/sim/node.go"
	named = "lab/sim/named.go"
	queue = "redislock/redlock/queue.go"
)

// simulated are mutants that 10,000 schedules of the simulator must catch: of
// the production code, and of what a node does in the store.
var simulated = inSim("TestNothingForbiddenHappens", []mutant{
	{
		name: "no owner compare",
		file: node, old: "\tl := s.of(e.Lease)\n\tif l == nil {\n\t\tif len(s.queue)",
		new: "\tl := s.of(e.Lease)\n\tif l == nil && len(s.locks) > 0 {\n\t\tl = s.locks[0]\n\t}\n\tif l == nil {\n\t\tif len(s.queue)",
	},
	{
		name: "elapsed not subtracted",
		file: "grant.go", old: "Since: remote.Since(),", new: "Since: driver.Now(),",
	},
	{
		name: "drift not subtracted",
		file: "internal/trust/trust.go", old: "l.since.Add(l.terms.TTL - driver.Drift(l.terms.TTL))", new: "l.since.Add(l.terms.TTL)",
	},
	{
		name: "minority counted",
		file: round, old: "\tq := t.d.quorum\n", new: "\tq := t.d.quorum - 1\n",
	},
	{
		name: "late votes counted, from when they come",
		file: "redislock/redlock/together.go", old: "case !r.m.answers(t.looked) || over:", new: "case false:",
		also: []edit{
			{"redislock/redlock/together.go", "\tif over {\n", "\tif false {\n"},
			{ask, "&grant{claim: c, token: token, since: since,", "&grant{claim: c, token: token, since: driver.Now(),"},
			{ask, "case err == nil && v == won && left > 0:", "case err == nil && v == won:"},
		},
	},
	{
		name: "no release on failure",
		file: ask, old: "\t\t\tends := c.end(\"\")\n", new: "\t\t\tvar ends chan ended\n",
	},
	{
		name: "no release on a cancelled context",
		file: ask, old: "\t\t\tends := c.end(\"\")\n", new: "\t\t\tvar ends <-chan ended\n\t\tif err == nil {\n\t\t\tends = c.end(\"\")\n\t\t}\n",
	},
	{
		name: "released requests not barred",
		file: claim, old: "Bar: t.unknown || t.pending > 0", new: "Bar: false",
	},
	{
		name: "late requests not barred whose answer was given up",
		file: claim, old: "Bar: t.unknown || t.pending > 0", new: "Bar: t.pending > 0",
	},
	{
		name: "endings not owed",
		file: claim, old: "\t\t\t\tm.owe(owed, c.ttl)\n", new: "\t\t\t\t_ = owed\n",
	},
	{
		name: "endings not owed where an answer is awaited",
		file: claim, old: "t.touched || t.pending > 0 ||", new: "t.touched ||",
	},
	{
		name: "extend without quorum",
		file: round, old: "case t.has.n >= t.d.quorum:\n\t\treturn won", new: "case t.has.n >= 1:\n\t\treturn won",
	},
	{
		name: "extend after expiry",
		file: "internal/trust/trust.go", old: "l.since.Add(l.terms.TTL - driver.Drift(l.terms.TTL))", new: "l.since.Add(10*l.terms.TTL)",
		also: []edit{
			{grant, "now >= g.until || now >= trust(since, ttl)", "now < since"},
			{grant, "case driver.Now() >= g.until:\n\t\treturn &driver.LostError{Reason: driver.Expired}\n\t}\n\treturn nil\n}\n\nfunc", "}\n\treturn nil\n}\n\nfunc"},
		},
	},
	{
		name: "quarantine off",
		file: node, old: "if !n.w.plan.Off.Quarantine {", new: "if false {",
	},
	{
		name: "granted though the token is not stored",
		file: round, old: "case t.stored.n >= q:", new: "case t.has.n >= q:",
	},
	{
		name: "token by INCR",
		file: node, old: "if fits { // 5\n\t\ts.floor.store(p)", new: "if fits = true; fits {\n\t\tp.Token = s.floor.token + 1\n\t\ts.floor.store(p)",
		also: []edit{{ask, "&grant{claim: c, token: token,", "&grant{claim: c, token: t.floor,"}},
	},
	{
		name: "token written back if still mine",
		file: node, old: "if fits { // 5\n\t\ts.floor.store(p)", new: "if fits = true; fits {\n\t\tp.Token = max(s.floor.token, p.Token)\n\t\ts.floor.store(p)",
	},
	{
		name: "an attempt repeated under the id of one that was ended",
		file: ask, old: "return s.req.Lease + \".\" + strconv.Itoa(s.tries)", new: "_ = strconv.Itoa\n\treturn s.req.Lease",
	},
	{
		name: "readers beside a writer",
		file: named, old: "return !s.exclusive() || n.w.plan.Off.Writers", new: "return true",
	},
	{
		name: "a writer beside readers",
		file: named, old: "\treturn len(s.locks) == 0\n}", new: "\treturn !s.exclusive()\n}",
	},
	{
		name: "a minority of readers counted",
		file: round, old: "\tq := t.d.quorum\n", new: "\tq := t.d.quorum\n\tif t.shared {\n\t\tq--\n\t}\n",
	},
	{
		name: "the release of one reader ends them all",
		file: node, old: "func(o *lock) bool { return o == l })\n\tif !l.Shared", new: "func(o *lock) bool { return o == l || l.Shared })\n\tif !l.Shared",
	},
	{
		name: "the token of a reader is not stored",
		file: node, old: "if fits { // 5\n", new: "if fits && p.Shared {\n\t\tv.Stored = true\n\t} else if fits {\n",
	},
})

// inSim returns mutants that a test of the simulator must catch.
func inSim(test string, all []mutant) []mutant {
	for i := range all {
		all[i].pkg, all[i].test = "lab/sim", test
	}
	return all
}

// The schedules that have to notice, which pass without a mutant as the next step of
// make test runs more of them.
func TestSimulatorCatchesEveryMutant(t *testing.T) {
	caught, b := prepare(t)
	each(t, simulated, func(t *testing.T, m mutant) func() {
		return func() {
			if missed := caught.by(m.name, b.of(t, m).run(m.test, b.number[m.name], "SIM_SCHEDULES=10000", "GOMAXPROCS=1")); missed != "" {
				t.Fatalf("10,000 schedules did not notice: %s", missed)
			}
		}
	})
}
