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

// TestGivingUpIsNoAnswer: a caller that gives up, and a request that is refused before it is sent, say nothing of the
// store. One that has never answered and cannot be reached ends the next call at once.
func TestGivingUpIsNoAnswer(t *testing.T) {
	for _, lasting := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			refused := &driver.Failure{Err: errors.New("connection refused"), Silent: true}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			first := true
			p, _ := scripted(func(*driver.Request) (driver.Answer, error) {
				switch {
				case !first:
					return driver.Answer{}, refused
				case lasting:
					first = false
					return driver.Answer{}, &driver.Failure{Err: errors.New("a name that is too long"), Lasting: true}
				}
				first = false
				cancel()
				return driver.Answer{}, &driver.Failure{Err: ctx.Err(), Maybe: true}
			})
			defer p.Close()
			if _, err := p.TryAcquire(ctx, &driver.Request{Name: "a", Lease: "l", TTL: time.Hour, Holder: &driver.Holder{}}); err == nil {
				t.Fatal("TryAcquire has a lease")
			}
			began := driver.Now()
			_, err := p.Acquire(t.Context(), &driver.Request{Name: "a", Lease: "m", TTL: time.Hour, Holder: &driver.Holder{}})
			if took := driver.Now().Sub(began); !errors.Is(err, refused.Err) || took > time.Second {
				t.Errorf("Acquire = %v after %v; want that the connection is refused, at once", err, took)
			}
		})
	}
}

// TestRefusedAndSilent: a call whose context ends says why the store has refused it, unless the store has been silent since.
func TestRefusedAndSilent(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			began := driver.Now()
			p, _ := scripted(func(*driver.Request) (driver.Answer, error) {
				late := driver.Now().Sub(began) > 5*time.Second
				return driver.Answer{}, &driver.Failure{Err: errors.New("no memory"), Silent: silent && late}
			})
			defer p.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := p.Acquire(ctx, &driver.Request{Name: "a", Lease: "l", TTL: time.Hour, Holder: &driver.Holder{}})
			var is *RefusedError
			if errors.As(err, &is) == silent || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Acquire of a store that is silent, %v: %v", silent, err)
			}
		})
	}
}
