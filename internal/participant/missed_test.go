// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// broken is a store whose leases somebody breaks before their clients know that they were granted.
type broken struct{ *script }

func (*broken) Renew(context.Context, driver.Ref, time.Duration) (driver.Renewal, error) {
	return driver.Renewal{}, &driver.LostError{Reason: driver.Broken}
}

// TestMissedBeforeAnswer: the event that a lease was broken may be lost while the answer that grants it is on its way. The
// client finds out at once, and not with the next renewal.
func TestMissedBeforeAnswer(t *testing.T) {
	for _, waits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &broken{new(script)}
			p := New(s, Options{})
			defer p.Close()
			s.ask = func(*driver.Request) (driver.Answer, error) {
				p.hear(driver.Event{Kind: driver.Missed})
				synctest.Wait() // nothing is to be asked for yet
				return driver.Answer{Granted: true, Token: 7}, nil
			}
			ask := p.TryAcquire
			if waits {
				ask = p.Acquire
			}
			l, err := ask(t.Context(), &driver.Request{Name: "a", Lease: "l", TTL: time.Hour, Holder: &driver.Holder{}})
			if err != nil {
				t.Fatal(err)
			}
			var lost error
			l.OnLost(func(err error) { lost = err })
			synctest.Wait()
			if !errors.Is(lost, driver.ErrLost) {
				t.Errorf("waits %v: the lease is lost: %v; want that it was broken", waits, lost)
			}
		})
	}
}
