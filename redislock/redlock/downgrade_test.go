// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestDowngradeInPart: a node has heard that a writer has become a reader, and the
// others have not. No other reader has a quorum until the writer has told one, where it
// has the lock at all nodes.
func TestDowngradeInPart(t *testing.T) {
	for _, lost := range []fault{{lost: true}, {silent: true}} {
		synctest.Test(t, func(t *testing.T) {
			all := masters(3)
			d, other := start(t, all, nil), start(t, all, nil)
			g := try(t, d)
			for _, m := range all[1:] {
				m.set(only("propose", lost))
			}
			if err := g.Downgrade(t.Context()); !errors.Is(err, driver.ErrUncertain) {
				t.Errorf("Downgrade that two of three nodes do not answer = %v; want ErrUncertain", err)
			}
			synctest.Wait()
			for _, m := range all[1:] {
				m.set(nil)
			}
			if lost.lost {
				refused(t, other, reader())
			}
			if _, err := d.TryAcquire(t.Context(), request()); !errors.Is(err, driver.ErrHeld) {
				t.Errorf("TryAcquire of a writer = %v; want ErrHeld", err)
			}
			if _, err := g.Renew(t.Context(), 10*time.Second); err != nil {
				t.Errorf("Renew = %v", err)
			}
			synctest.Wait()
			for _, m := range all {
				if l := m.lockOf(name); !l.Shared || l.Token != g.token {
					t.Errorf("%s has %+v; want the lease, shared, with token %d", m.addr, l, g.token)
				}
			}
			tryShared(t, other)
		})
	}
}

// TestDowngradeOfAMinority: the writer has three of five nodes, of which one has heard that
// it is a reader now. A reader gets that one and the two others, and no writer comes in.
// Renewals make both of them readers everywhere.
func TestDowngradeOfAMinority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		d, other := start(t, all, nil), start(t, all, nil)
		for _, m := range all[3:] {
			m.set(always(fault{refused: true}))
		}
		g := try(t, d)
		for _, m := range all[1:] {
			m.set(always(fault{lost: true}))
		}
		if err := g.Downgrade(t.Context()); !errors.Is(err, driver.ErrUncertain) {
			t.Errorf("Downgrade that one of five nodes answers = %v; want ErrUncertain", err)
		}
		synctest.Wait()
		for _, m := range all {
			m.set(nil)
		}
		r := tryShared(t, other)
		refused(t, other, request())
		for _, l := range []*grant{g, r} {
			if _, err := l.Renew(t.Context(), 10*time.Second); err != nil {
				t.Errorf("Renew = %v", err)
			}
			synctest.Wait()
		}
		for _, m := range all {
			if s := m.stateOf(name); len(s.Locks) != 2 || !s.Locks[0].Shared || !s.Locks[1].Shared {
				t.Errorf("%s has %+v; want both, shared", m.addr, s.Locks)
			}
		}
	})
}

// TestLateRenewalAfterDowngrade: a renewal from before that comes late makes nothing
// exclusive again where the lease is shared.
func TestLateRenewalAfterDowngrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		d, other := start(t, all, nil), start(t, all, nil)
		g := try(t, d)
		late := Proposal{Mode: Heal, Name: name, Lease: g.lease, Token: g.token, TTL: 10 * time.Second, Record: "{}"}
		if err := g.Downgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		tryShared(t, other)
		for _, m := range all {
			if v, err := m.Propose(t.Context(), late); err != nil || !v.Has {
				t.Errorf("Propose = %+v, %v", v, err)
			}
		}
		refused(t, other, request())
		tryShared(t, other)
	})
}
