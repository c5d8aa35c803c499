// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestPausesOfASubscription: a server that restarts every few seconds is heard again at once, each time.
// One that ends each subscription as soon as it has begun is asked once a second.
func TestPausesOfASubscription(t *testing.T) {
	for _, c := range []struct {
		lasts, most, least time.Duration
	}{
		{2500 * time.Millisecond, 100 * time.Millisecond, 0},
		{10 * time.Millisecond, time.Second, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			s := NewSubscription(func(*Subscription) {})
			times, ended := 0, driver.Now()
			var pause time.Duration
			s.Keep(ctx, func(context.Context) error {
				pause = driver.Now().Sub(ended)
				s.set(nil, true, nil)
				time.Sleep(c.lasts)
				if ended, times = driver.Now(), times+1; times == 20 {
					cancel()
				}
				return nil
			})
			if pause > c.most || pause < c.least {
				t.Errorf("the 20th pause, behind subscriptions that last %v, is %v; want %v to %v", c.lasts, pause, c.least, c.most)
			}
		})
	}
}
