// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// TestFailedAttemptsStopNoHealing: all nodes are restarted in turn while somebody tries
// to get the name all the time, and leaves a greater token at each that has come back.
// The holder still gets it back, but not once a later lease has been granted.
func TestFailedAttemptsStopNoHealing(t *testing.T) {
	withStore(t, 5, func(t *testing.T, all []*master, d *store) {
		g := try(t, d)
		for _, m := range all {
			m.restart(false)
			time.Sleep(time.Second) // the clock goes on, and so do the tokens of those who try
			for _, o := range all { // else an attempt may know that it has failed, and end, before it has asked this one
				if o != m {
					o.set(always(fault{after: time.Millisecond}))
				}
			}
			for range 3 {
				if _, err := d.TryAcquire(t.Context(), request()); !errors.Is(err, driver.ErrHeld) {
					t.Fatalf("TryAcquire = %v; want ErrHeld", err)
				}
				synctest.Wait()
			}
			for _, o := range all {
				o.set(nil)
			}
			if s := m.stateOf(name); s.Floor <= g.token {
				t.Fatalf("%s has the floor %d; want that of an attempt", m.addr, s.Floor)
			}
			if _, err := g.Renew(t.Context(), 10*time.Second); err != nil {
				t.Fatalf("Renew after the restart of %s = %v", m.addr, err)
			}
			synctest.Wait()
			if l := m.lockOf(name); l.Lease != g.lease || l.Token != g.token {
				t.Errorf("%s has %+v; want the lock with token %d", m.addr, l, g.token)
			}
		}
		for _, m := range all { // as if it had expired: clocks went wrong
			m.End(t.Context(), nodewire.Ending{Name: name, Lease: g.lease, Held: true})
		}
		next := try(t, d)
		release(t, next)
		all[0].set(only("propose", fault{refused: true}))
		all[1].set(only("propose", fault{refused: true}))
		all[2].set(only("propose", fault{refused: true}))
		if g, err := d.TryAcquire(t.Context(), request()); err == nil {
			t.Fatalf("TryAcquire = %v at two nodes of five", g)
		}
		setAll(all, nil)
		time.Sleep(time.Second)
		if _, err := g.Renew(t.Context(), 10*time.Second); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Renew after a lease with a greater token, and an attempt = %v; want ErrLost", err)
		}
	})
}

// TestNoRoundIsWonBelowAFloorHeardOf: three of five nodes have forgotten a token of a client
// whose clock was ahead, and the others have not. No later token is smaller, although
// those three would do, and answer first.
func TestNoRoundIsWonBelowAFloorHeardOf(t *testing.T) {
	for _, late := range []time.Duration{0, 500 * time.Microsecond} {
		withStore(t, 5, func(t *testing.T, all []*master, d *store) {
			ahead := uint64(time.Now().Add(time.Minute).UnixMicro())
			for _, m := range all[3:] {
				m.Name(name).Store(ahead, "ahead", false)
			}
			for i, m := range all {
				m.set(always(fault{after: time.Millisecond + time.Duration(i/3)*late}))
			}
			last := ahead
			for range 10 {
				g := try(t, d)
				if g.token <= last {
					t.Errorf("token %d after %d", g.token, last)
				}
				last = g.token
				release(t, g)
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}

// TestClockOfTheYear2256: it gets no lease, an error that says why, and leaves nothing that keeps
// others out.
func TestClockOfTheYear2256(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		year := func() time.Time { return time.Date(2256, 1, 1, 0, 0, 0, 0, time.UTC) }
		wrong := start(t, all, &Options{WallClock: year})
		if _, err := wrong.TryAcquire(t.Context(), request()); err == nil || !strings.Contains(err.Error(), "set the clock") {
			t.Errorf("TryAcquire = %v; want an error that says what to do", err)
		}
		d := start(t, all, nil)
		g := try(t, d)
		if g.token > nodewire.MaxToken || d.rounds.Load() != 1 {
			t.Errorf("token %d after %d rounds; want the token that the clock gives", g.token, d.rounds.Load())
		}
	})
}
