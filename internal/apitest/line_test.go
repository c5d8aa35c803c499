// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// The lease is granted, or passed on, in the very instant in which the waiter
// gives up: it must be put back, or the name stays held by nobody. With one
// processor the waiter finds both events when it wakes, the first of them first.
func TestGrantInTheInstantOfCancelIsPutBack(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, holder := range []string{"same client", "same client with reserved tokens", "another client"} {
		for _, first := range []string{"cancel", "grant", "either"} {
			t.Run(holder+", "+first+" first", func(t *testing.T) {
				for range 100 {
					synctest.Test(t, func(t *testing.T) { grantAndCancel(t, holder, first) })
				}
			})
		}
	}
}

func grantAndCancel(t *testing.T, by, first string) {
	s := new(memlock.Store)
	d := s.Participant()
	if by == "same client with reserved tokens" { // which hands its grant over
		d = reserve(s, 100)
	}
	c, other := open(t, d, nil), open(t, s.Participant(), nil)
	holder := c
	if by == "another client" {
		holder = other
	}
	l := acquire(t, holder, "a")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		if l, err := c.Acquire(ctx, "a"); err == nil {
			release(t, l)
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
	}()
	synctest.Wait() // it waits
	switch first {
	case "cancel":
		cancel()
	case "either":
		go cancel()
	}
	release(t, l)
	cancel()
	synctest.Wait()
	for _, next := range []*pawl.Client{other, c} {
		l, err := next.TryAcquire(context.Background(), "a")
		if err != nil {
			t.Fatalf("nobody holds the name, but it is not free: %v", err)
		}
		release(t, l)
	}
	ctx = within(t, time.Minute)
	last, err := c.Acquire(ctx, "a")
	if err != nil {
		t.Fatalf("the line does not go on: %v", err)
	}
	release(t, last)
}

func TestGrantAfterCancelIsPutBack(t *testing.T) {
	for _, op := range []string{"Acquire", "TryAcquire"} {
		t.Run(op, func(t *testing.T) {
			s := new(memlock.Store)
			d := tap(s)
			ctx, cancel := context.WithCancel(context.Background())
			d.try = func(_ context.Context, ask func() (driver.Answer, error)) (driver.Answer, error) {
				g, err := ask()
				cancel() // while the answer is on its way
				return g, err
			}
			c := open(t, d, nil)
			call := c.Acquire
			if op == "TryAcquire" {
				call = c.TryAcquire
			}
			if _, err := call(ctx, "a"); !errors.Is(err, context.Canceled) {
				t.Fatalf("error is %v, want the context's own", err)
			}
			ctx = within(t, 10*time.Second)
			if _, err := open(t, s.Participant(), nil).Acquire(ctx, "a"); err != nil {
				t.Errorf("the grant was not put back: %v", err)
			}
		})
	}
}

func TestLostLeaseLetsTheLineGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, new(memlock.Store).Participant(), nil)
		l := acquire(t, c, "a", pawl.MaxHold(time.Second), pawl.TTL(2*time.Second))
		next := acquire(t, c, "a") // by the store, when the TTL is over
		wantIs(t, l.Release(context.Background()), pawl.ErrLost)
		release(t, next)
	})
}
