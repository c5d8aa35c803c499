// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestLostInAnOutage: an event that ends the place of a waiter, as its session has ended in an outage, does not begin the
// outage anew: the waiter gives up after one TTL.
func TestLostInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Minute
		asked := 0
		p, _ := scripted(func(*driver.Request) (driver.Answer, error) {
			if asked++; asked == 1 {
				return driver.Answer{Rank: 1, Free: time.Second}, nil
			}
			return driver.Answer{}, &driver.Failure{Err: errors.New("no answer"), Silent: true}
		})
		defer p.Close()
		began := time.Now()
		time.AfterFunc(ttl*9/10, func() { p.hear(driver.Event{Kind: driver.Lost, Name: "a", Lease: "l"}) })
		_, err := p.Acquire(t.Context(), &driver.Request{Name: "a", Lease: "l", TTL: ttl, Holder: &driver.Holder{}})
		var silent *driver.SilentError
		if took := time.Since(began); !errors.As(err, &silent) || took < ttl || took > ttl+10*time.Second {
			t.Errorf("after %v: %v; want that the store has been silent for %v", took, err, ttl)
		}
	})
}
