// SPDX-License-Identifier: Apache-2.0

package participant_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

// histories returns how many a test runs: n, or what the environment says.
func histories(t *testing.T, n int) int {
	if text := os.Getenv("HISTORIES"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("HISTORIES=%q: give a number", text)
		}
	}
	return n
}

// in runs a plan in a bubble of its own.
func in(t *testing.T, p *plan) (w *world) {
	synctest.Test(t, func(*testing.T) { w = run(p) })
	return w
}

// shrink returns a plan that still fails, and has nothing that could be left out.
func shrink(t *testing.T, p *plan) *plan {
	for again := true; again; {
		again = false
		for _, q := range p.without() {
			if len(in(t, q).failures) > 0 {
				p, again = q, true
				break
			}
		}
	}
	return p
}

func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, TTL %v, polls %v, gentle %v\n", p.Seed, p.TTL, p.Polls, p.Gentle)
	for i, s := range p.Scripts {
		fmt.Fprintf(&b, "  script %d of client %d: %+v\n", i, s.Client, s.Ops)
	}
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "  %v\n", f)
	}
	return b.String()
}

// TestHistories runs random histories of clients whose wires lose, repeat, delay and reorder everything, and
// checks what package participant promises.
func TestHistories(t *testing.T) {
	first := uint64(1)
	if text := os.Getenv("SEED"); text != "" {
		first, _ = strconv.ParseUint(text, 10, 64)
	}
	failed := 0
	for seed := range uint64(histories(t, 20000)) {
		w := in(t, draw(first+seed))
		if len(w.failures) == 0 {
			continue
		}
		p := shrink(t, draw(first+seed))
		w = in(t, p)
		t.Errorf("%v%s\n%s", p, strings.Join(w.failures, "\n"), strings.Join(w.log, "\n"))
		if failed++; failed == 3 {
			return
		}
	}
}
