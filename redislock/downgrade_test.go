// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// lowered has the store grant req in place of g.
func lowered(t testing.TB, g *participant.Lease, req *driver.Request) *participant.Lease {
	t.Helper()
	shared, err := g.Downgrade(t.Context(), reading(req))
	must(t, err)
	return shared
}

// TestDowngradeWithoutAnswer: the answer to a downgrade is lost. Whether the server has carried it out or not, the
// end of both leases, in any order, frees the lock, and a request that comes after that changes nothing.
func TestDowngradeWithoutAnswer(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	for _, done := range []bool{false, true} {
		for _, first := range []bool{false, true} {
			name := fmt.Sprint("deploy", done, first)
			g := take(t, a, long(name))
			req := reading(long(name))
			req.Instead = g.ID()
			asks := func() bool {
				ans, _ := a.store.Ask(t.Context(), req)
				return ans.Granted
			}
			if done && !asks() {
				t.Error("it is not carried out")
			}
			both := []driver.Ref{{Name: name, Lease: req.Instead}, {Name: name, Lease: req.Lease, Shared: true}}
			if first {
				slices.Reverse(both)
			}
			for _, l := range both {
				succeeds(t, "End", errorOf(a.store.End(t.Context(), l, driver.End{Unsure: l.Shared, Doubt: true})))
				if asks() {
					t.Error("it is carried out after the end of a lease")
				}
			}
			release(t, take(t, b, long(name)))
		}
	}
}

// TestDowngradeAdmits: a downgrade grants the lock to a reader at the head of the queue in the same step, also if that
// does not look again.
func TestDowngradeAdmits(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	g := take(t, openLong(t, r), long("deploy"))
	waits, err := NewStore(t.Context(), r.url(), longOptions())
	must(t, err)
	defer waits.Close()
	waits.Listen(func(driver.Event) {})
	ready, stop := waits.Hear("deploy")
	defer stop()
	within(t, "there is no subscription", ready)
	req := reading(long("deploy"))
	req.Queue = true
	ans, err := waits.Ask(t.Context(), req)
	if err != nil || ans.Granted {
		t.Fatalf("Ask = %v, %v; want a place in the queue", ans.Granted, err)
	}
	lowered(t, g, long("deploy"))
	ref := driver.Ref{Name: req.Name, Lease: req.Lease, Shared: true, Handle: ans.Handle}
	if found, err := waits.End(t.Context(), ref, driver.End{}); err != nil || !found {
		t.Errorf("End = %v, %v; want that the reader had the lock", found, err)
	}
}
