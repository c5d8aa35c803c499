// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

func TestExtendWithinTheValidityOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		g := try(t, start(t, all, &Options{NodeTimeout: 10 * time.Second}))
		time.Sleep(9 * time.Second)
		for _, m := range all {
			m.set(only("propose", fault{after: 1050 * time.Millisecond})) // 50 ms after its end
		}
		if _, err := g.Renew(t.Context(), 10*time.Second); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Renew that ends after the deadline = %v; want ErrLost", err)
		}
	})
}

func TestNoExtensionAfterTheEnd(t *testing.T) {
	withLease(t, 3, func(t *testing.T, all []*master, g *grant) {
		time.Sleep(10 * time.Second)
		for _, m := range all { // their clocks are slow
			m.Model.Propose(nodewire.Proposal{Name: name, Lease: g.lease, Token: g.token, TTL: time.Second})
		}
		before := all[0].calls
		if _, err := g.Renew(t.Context(), 10*time.Second); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Renew after the deadline = %v; want ErrLost", err)
		}
		if n := all[0].calls - before; n != 0 {
			t.Errorf("the node was asked %d times; want never", n)
		}
	})
}

// TestSinceOfAHealedLease: a node that got the lock back says since when it has that, and
// the lease is older.
func TestSinceOfAHealedLease(t *testing.T) {
	began := time.Now()
	healed := nodewire.State{Locks: []nodewire.Lock{{Lease: "a", Granted: began.Add(time.Minute)}}}
	other := nodewire.State{Locks: []nodewire.Lock{{Lease: "a", Granted: began}}}
	foreign := nodewire.State{Locks: []nodewire.Lock{{Lease: "a"}}} // of another library
	for _, states := range [][]nodewire.State{{healed, other, foreign}, {other, foreign, healed}, {foreign, healed, other}} {
		if got := largest(states); !got.Granted.Equal(began) {
			t.Errorf("it is held since %v, want %v", got.Granted, began)
		}
	}
}

func TestNoHealInQuarantine(t *testing.T) {
	withLease(t, 3, func(t *testing.T, all []*master, g *grant) {
		all[0].restart(true)
		renew := func() {
			t.Helper()
			renew(t, g, 10*time.Second)
			time.Sleep(time.Second)
		}
		for range 59 {
			renew()
			free(t, all[:1], "")
		}
		renew()
		renew()
		if l := all[0].lockOf(name); l.Lease != g.lease {
			t.Errorf("after the quarantine the node has %+v; want the lock", l)
		}
	})
}

// TestSupersededLeaseLearnsIt: if somebody else had the name meanwhile, because
// clocks went wrong, the lease must not be healed.
func TestSupersededLeaseLearnsIt(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		g := try(t, d)
		for _, m := range all[:2] {
			m.End(t.Context(), nodewire.Ending{Name: name, Lease: g.lease}) // as if it had expired
		}
		next := try(t, d)
		release(t, next)
		time.Sleep(time.Millisecond)
		if _, err := g.Renew(t.Context(), 10*time.Second); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Renew of a lease with token %d after one with %d = %v; want ErrLost", g.token, next.token, err)
		}
		free(t, all[:2], "")
	})
}

func TestBrokenLeaseIsNotHealed(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		g := try(t, d)
		all[2].set(always(fault{refused: true}))
		by := &driver.Holder{Who: "operator"}
		if err := d.Break(t.Context(), name, g.lease, by, "it hangs"); err != nil {
			t.Fatal(err)
		}
		h, _ := d.party().handles.Load(g.ID())
		_, err := d.Renew(t.Context(), driver.Ref{Handle: h}, 10*time.Second) // its client has heard of it
		var lost *driver.LostError
		if !errors.As(err, &lost) || lost.Reason != driver.Broken || lost.By == nil || *lost.By != *by || lost.Why != "it hangs" {
			t.Errorf("Renew of a broken lease = %v; want broken by the operator", err)
		}
		free(t, all[:2], "")
		all[2].set(nil)
		time.Sleep(3 * time.Second)
		free(t, all, "") // that node has heard of it now
	})
}

func TestReleaseWithoutAQuorum(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		g := try(t, d)
		setAll(all[1:], always(fault{lost: true}))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := g.Release(ctx); err == nil || errors.Is(err, driver.ErrLost) {
			t.Errorf("Release = %v; want an error that is not ErrLost", err)
		}
		setAll(all, nil)
		if err := g.Release(t.Context()); err != nil {
			t.Errorf("second Release = %v", err)
		}
		time.Sleep(3 * time.Second)
		free(t, all, "")
	})
}

// TestRenewalAfterRelease: a renewal that begins when the release is under way, as a
// goroutine that was on its way to Renew may, heals nothing.
func TestRenewalAfterRelease(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		g := try(t, d)
		h, _ := d.party().handles.Load(g.ID())
		l := h.(*lease)
		before := l.standing()
		setAll(all, only("end", fault{after: 100 * time.Millisecond}))
		released := make(chan error)
		go func() { released <- g.Release(t.Context()) }()
		time.Sleep(time.Millisecond) // the nodes have ended it; that is not known yet
		if _, err := g.Renew(t.Context(), 10*time.Second); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Renew during Release = %v; want ErrLost", err)
		}
		if err := l.heal(t.Context(), before, 10*time.Second); !errors.Is(err, driver.ErrLost) { // of a Renew that came before
			t.Errorf("Renew that goes on during Release = %v; want ErrLost", err)
		}
		if err := <-released; err != nil {
			t.Errorf("Release = %v", err)
		}
		free(t, all, "")
	})
}
