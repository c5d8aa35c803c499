// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/trust"
)

// TestPaused: a lease that ends because the process was stopped says so, and one whose store did not answer does not.
func TestPaused(t *testing.T) {
	const begin, ttl = driver.Instant(1e9), 30 * time.Second
	lease := func(terms trust.Terms) trust.Lease {
		terms.TTL = ttl
		l := trust.Begin(terms, trust.Grant{Expires: true, Since: begin}, begin, 0)
		for at := l.Due(); at < begin.Add(ttl/3); at = l.Due() { // the first renewal comes early
			l.Wake(at)
			if r, ok := l.Renew(at); ok {
				l.Answer(trust.Answer{Own: true, Sent: at, TTL: r.TTL, Since: at}, at, 0)
				break
			}
		}
		return l
	}
	paused := func(l *trust.Lease, now driver.Instant) time.Duration {
		t.Helper()
		lost := new(driver.LostError)
		if !l.Look(now) || !errors.As(l.Ended(), &lost) || lost.Reason != driver.Expired {
			t.Fatalf("the lease has ended with %v", l.Ended())
		}
		return lost.Paused
	}
	l := lease(trust.Terms{})
	due := l.Due()
	if got := paused(&l, due.Add(time.Minute)); got != time.Minute {
		t.Errorf("paused for %v; want a minute", got)
	}
	l = lease(trust.Terms{NoRenew: true})
	if got := paused(&l, begin.Add(time.Hour)); got != 0 {
		t.Errorf("a lease that nobody renews: paused for %v", got)
	}
	l = lease(trust.Terms{})
	for l.Ended() == nil { // the store is silent
		now := l.Due()
		if l.Wake(now); l.Ended() == nil {
			l.Renew(now)
		}
	}
	lost := new(driver.LostError)
	if !errors.As(l.Ended(), &lost) || lost.Paused != 0 {
		t.Errorf("a silent store: %v", l.Ended())
	}
}
