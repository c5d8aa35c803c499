// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// reuse: the check asks with the id of a request that was refused. A Driver bars the ids of refused requests at the nodes.
// Package participant asks with another id.
const reuse = "a refused id is not used again"

// unmoved are the checks that Wire does not pass, as a Driver has its own client half, and why.
var unmoved = map[string]string{
	"token-grows-with-each-grant":                        reuse,
	"a-lease-ends-when-its-ttl-is-over":                  reuse,
	"a-lease-is-not-over-while-it-is-trusted":            reuse,
	"a-renewal-prolongs":                                 reuse,
	"a-renewal-for-a-microsecond-only-asks":              reuse,
	"a-renewal-never-revives":                            reuse,
	"a-late-renewal-spares-the-successor":                reuse,
	"a-hand-over-begins-a-ttl":                           reuse,
	"a-crash-frees-the-names-of-that-participant":        reuse,
	"a-holder-that-is-cut-off-keeps-nobody-out-for-long": reuse,
	"a-waiter-that-was-ended-leaves-the-queue":           "it asks for the order of waiters, which is not promised",
	"nothing-is-left":                                    reuse,
	"a-crashed-waiter-is-passed-over":                    "what a waiter that has crashed was handed stays with it for a second",
	"inspect-shows-holders-and-the-queue":                "Inspect shows no readers that wait, and not since when",
	"a-reader-that-expires-spares-the-others":            "a Driver says that a lease is over as soon as it does not trust it, a hundredth of its TTL before the nodes end it",
}

// TestWireOfABrokenLease: a waiter that asks because its lease was broken is not told that it has it.
func TestWireOfABrokenLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, masters(3), nil)
		w := d.Wire()
		req := lasting("deploy", 10*time.Second)
		req.Queue = true
		if ans, err := w.Ask(t.Context(), req); err != nil || !ans.Granted {
			t.Fatalf("Ask = %+v, %v; want a grant", ans, err)
		}
		if err := w.Break(t.Context(), req.Name, req.Lease, &driver.Holder{Who: "test"}, "a test"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ans, err := w.Ask(t.Context(), req)
		if ans.Granted || !driver.FailureOf(err).Ended {
			t.Errorf("Ask after the lease was broken = %+v, %v; want that it has ended", ans, err)
		}
		if _, err := w.End(t.Context(), driver.Ref{Name: req.Name, Lease: req.Lease}, driver.End{Doubt: true}); !errors.Is(err, driver.ErrLost) {
			t.Errorf("End = %v; want ErrLost", err)
		}
	})
}
