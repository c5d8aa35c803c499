// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"strings"
	"testing"
)

// offSteps are mutants that only a run held against the formulas of spec/proof shows: nothing forbidden comes of them
// while clocks are right.
var offSteps = func() (all []mutant) {
	const pkg, propose, ofAChange = "redislock/redlock", "redislock/redlock/lua/propose.lua", "TestStepsOfAChange"
	for _, m := range []mutant{
		{
			name: "steps: a node takes the drift off, too", file: propose, test: "release-frees-the-name",
			old: "token .. tail, 'PX', ttl, 'NX')", new: "token .. tail, 'PX', math.floor(ttl * 0.99), 'NX')",
		},
		{
			name: "steps: a node takes the drift off for readers, too", file: propose, test: "readers-hold-together",
			old: "  else\n    till = at + px * 1000\n", new: "  else\n    till = at + px * 990\n",
		},
		{
			name: "steps: a client takes the drift off twice", file: pkg + "/server.go", test: "release-frees-the-name",
			old: "p.From, epoch.Millis(p.TTL),", new: "p.From, epoch.Millis(p.TTL - driver.Drift(p.TTL)),",
		},
		{
			name: "steps: a lease that was handed over counts as a failed attempt", file: queue, test: "client-waits-for-another-client",
			old: "\tc.grant()\n\ts.leave()\n", new: "\ts.leave()\n",
		},
		{
			name: "steps: new nodes are accepted before the last leases of the old ones are over", file: pkg + "/change.go", test: ofAChange,
			old: "case <-time.After(ttl + driver.Drift(ttl)):", new: "case <-time.After(ttl - ttl/4):",
		},
		{
			name: "steps: a generation is recorded that no node has accepted", file: pkg + "/decide.go", test: ofAChange,
			old: `c.ask(ctx, "accept", b); ok`, new: `c.ask(ctx, "ask", b); ok`,
		},
	} {
		m.pkg = pkg
		if !strings.HasPrefix(m.test, "Test") {
			m.test = "TestStepsOfServers/" + m.test
		}
		all = append(all, m)
	}
	return all
}()

// TestStepsOfServersCatchEveryMutant: what holds real servers against the formulas can fail.
func TestStepsOfServersCatchEveryMutant(t *testing.T) {
	caught, b := prepare(t)
	each(t, offSteps, func(t *testing.T, m mutant) func() {
		return func() {
			bin := b.of(t, m)
			if out := bin.passes(m.test, "REDLOCK_STEPS=1"); out != "" {
				t.Fatalf("%s fails without a mutant:\n%s", m.test, out)
			}
			if missed := caught.by(m.name, bin.run(m.test, b.number[m.name], "REDLOCK_STEPS=1")); missed != "" {
				t.Fatalf("the formulas did not notice: %s", missed)
			}
		}
	})
}
