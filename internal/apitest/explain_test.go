// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

func as(who string) *pawl.Options { return &pawl.Options{Holder: pawl.Holder{Who: who}} }

// gaveUp waits for name for a second and returns the HeldError of the call and the
// whole error.
func gaveUp(t *testing.T, c *pawl.Client, name string, cause error) (*pawl.HeldError, error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, cause)
	defer cancel()
	_, err := c.Acquire(ctx, name)
	var e *pawl.Error
	if !errors.As(err, &e) || e.Op != "acquire" || e.Name != name {
		t.Errorf("error is %#v; want an *Error of acquire on %s", err, name)
	}
	wantIs(t, err, context.DeadlineExceeded)
	var held *pawl.HeldError
	if !errors.As(err, &held) || len(held.Info.Holders) == 0 {
		t.Fatalf("error %v is no HeldError with a holder", err)
	}
	return held, err
}

func TestTimeoutTellsTheHolderAndThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		a, b, c := open(t, s.Participant(), as("alice")), open(t, s.Participant(), as("bob")), open(t, s.Participant(), as("carol"))
		l := acquire(t, a, "deploy", pawl.Why("release 7"))
		time.Sleep(3 * time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		go b.Acquire(ctx, "deploy")
		synctest.Wait()
		go c.Acquire(ctx, "deploy")
		synctest.Wait()
		d := open(t, s.Participant(), as("dave"))
		boom := errors.New("the shift is over")
		for _, test := range []struct {
			c     *pawl.Client
			place int
		}{
			{d, 3}, // at the store, behind bob and carol
			{c, 3}, // behind bob and the other goroutine of its own
			{b, 2},
			{a, 1}, // in its own line, behind its own lease
		} {
			held, err := gaveUp(t, test.c, "deploy", boom)
			wantIs(t, err, boom)
			wantIs(t, err, pawl.ErrHeld)
			h := held.Info.Holders[0]
			if h.Who != "alice" || h.Lease != l.ID() || h.Acquired.IsZero() || held.Place != test.place {
				t.Errorf("told of %+v, place %d; want alice's lease, place %d", h, held.Place, test.place)
			}
			for _, part := range []string{`acquire "deploy"`, "deadline exceeded", "the shift is over", "held by alice", fmt.Sprintf("place %d", test.place)} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not tell %q", err, part)
				}
			}
		}
		cancel()
		synctest.Wait()
		release(t, l)
	})
}

func TestTimeoutTellsWhatAStoreWithoutAQueueSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		release := acquire(t, open(t, s.Participant(), as("alice")), "deploy").Release
		held, _ := gaveUp(t, open(t, tap(s), as("bob")), "deploy", nil)
		if held.Info.Holders[0].Who != "alice" || held.Place != 0 {
			t.Errorf("told of %+v, place %d", held.Info.Holders[0], held.Place)
		}
		release(context.Background())
	})
}

// unordered is a memlock that does not promise to serve its waiters in order.
type unordered struct{ *showing }

func (d unordered) Caps() driver.Caps {
	c := d.showing.Caps()
	c.FIFO = false
	return c
}

func TestTimeoutTellsNoPlaceWithoutOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		l := acquire(t, open(t, s.Participant(), as("alice")), "deploy")
		bob := open(t, unordered{show(s, nil)}, as("bob"))
		held, _ := gaveUp(t, bob, "deploy", nil)
		if held.Info.Holders[0].Who != "alice" || len(held.Info.Waiters) != 1 || held.Place != 0 {
			t.Errorf("told of %+v, place %d; want alice, one waiter and no place", held.Info, held.Place)
		}
		release(t, l)
	})
}

func TestTimeoutWaitsForNoStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		l := acquire(t, open(t, s.Participant(), nil), "deploy")
		c := open(t, show(s, func(ctx context.Context, _ string) (*driver.Info, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}), nil)
		for range 3 { // one at the store, two behind it
			go func() {
				ctx := within(t, time.Second)
				began := time.Now()
				_, err := c.Acquire(ctx, "deploy")
				wantIs(t, err, context.DeadlineExceeded)
				if d := time.Since(began); d > 1100*time.Millisecond {
					t.Errorf("it returned after %v", d)
				}
			}()
		}
		time.Sleep(2 * time.Second)
		release(t, l)
	})
}

// The name comes free while a call that gives up asks who has it.
func TestGrantWhileLookingIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		l := acquire(t, open(t, s.Participant(), nil), "deploy")
		c := open(t, show(s, func(ctx context.Context, _ string) (*driver.Info, error) {
			release(t, l)
			<-ctx.Done()
			return nil, ctx.Err()
		}), nil)
		ctx := within(t, time.Second)
		got, err := c.Acquire(ctx, "deploy")
		if got != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Acquire = %v, %v; want the context's error", got, err) // a lease that is held would be renewed for ever
		}
		synctest.Wait()
		release(t, acquire(t, open(t, s.Participant(), nil), "deploy"))
	})
}

func TestNoContextIsOneWithoutAnEnd(t *testing.T) {
	s := new(memlock.Store)
	c := open(t, s.Participant(), nil)
	var none context.Context
	l, err := c.Acquire(none, "a")
	wantIs(t, err, nil)
	ctx, cancel := l.Context(none)
	wantIs(t, ctx.Err(), nil)
	cancel()
	wantIs(t, l.Extend(none, time.Minute), nil)
	l, err = l.Downgrade(none)
	wantIs(t, err, nil)
	wantIs(t, l.Release(none), nil)
	all := acquireAll(t, c, []string{"a", "b"})
	ctx, cancel = all.Context(none)
	wantIs(t, ctx.Err(), nil)
	cancel()
	wantIs(t, all.Release(none), nil)
	want := map[string]error{"Break": pawl.ErrReleased, "Store": errors.ErrUnsupported}
	for what, call := range callsOf(c) {
		if err := call(none); !errors.Is(err, want[what]) {
			t.Errorf("%s without a context: %v", what, err)
		}
	}
}

func TestPanicInReleaseDoesNotStopClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		c := open(t, d, nil)
		l := acquire(t, c, "a")
		set(d, &d.release, func(context.Context, func() (bool, error)) (bool, error) { panic("boom") })
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not pass through")
				}
			}()
			l.Release(context.Background())
		}()
		if err := l.Release(context.Background()); err == nil {
			t.Error("the second Release says that the first went well")
		}
		c.Close()
	})
}

func TestClosedClientSaysSo(t *testing.T) {
	c := open(t, new(memlock.Store).Participant(), nil)
	c.Close()
	for op, call := range callsOf(c) {
		err := call(t.Context())
		var e *pawl.Error
		if !errors.Is(err, pawl.ErrClosed) || !errors.As(err, &e) || errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("%s after Close = %v; want an *Error that is ErrClosed alone", op, err)
		}
	}
}

// closed is a store in quarantine.
type closed struct {
	*showing
	left time.Duration
}

func (d closed) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	return driver.Answer{Closed: d.left, Free: -1}, ctx.Err()
}

func (d closed) Caps() driver.Caps { return remote(d.Store) }

func (d closed) Describe(ctx context.Context) (*driver.StoreInfo, error) {
	return &driver.StoreInfo{MaxTTL: 10 * time.Minute, SetBy: &driver.Holder{Who: "alice"}, Closed: d.left}, nil
}

func TestTimeoutTellsTheQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := func(context.Context, string) (*driver.Info, error) { return new(driver.Info), nil }
		open := func(left time.Duration) *pawl.Client {
			return open(t, closed{show(new(memlock.Store), free), left}, nil)
		}
		wait := func(c *pawl.Client, long time.Duration) error {
			ctx := within(t, long)
			_, err := c.Acquire(ctx, "deploy")
			return err
		}
		c, results := open(90*time.Second), make(chan error, 2)
		for i := range 2 { // one at the store, and one behind it, which gives up first
			go func() { results <- wait(c, time.Duration(2-i)*time.Second) }()
			synctest.Wait()
		}
		for range 2 {
			err := <-results
			var e *pawl.Error
			var quarantine *pawl.ClosedError
			if !errors.As(err, &e) || !errors.As(err, &quarantine) || quarantine.Left != 90*time.Second {
				t.Fatalf("Acquire = %#v; want an *Error with a *ClosedError", err)
			}
			wantIs(t, err, context.DeadlineExceeded)
			wantIs(t, err, pawl.ErrUnavailable)
			for _, part := range []string{"deadline exceeded", "for another 1m30s", "last for 10m0s at most, as set by alice"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not tell %q", err, part)
				}
			}
		}
		if err := wait(open(0), time.Second); errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("Acquire of a name that nobody has = %v; want the end of the context alone", err)
		}
	})
}

func TestSuspectLeaseHasAReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		set(d, &d.renew, func(ctx context.Context, ask func() (driver.Renewal, error)) (driver.Renewal, error) {
			time.Sleep(25 * time.Second) // and does not look at ctx
			return ask()
		})
		reasons := make(chan error, 10)
		c := open(t, d, &pawl.Options{Observer: pawl.Observer{Suspect: func(e pawl.Event) { reasons <- e.Err }}})
		l := acquire(t, c, "a")
		time.Sleep(25 * time.Second)
		if err := <-reasons; err == nil || !strings.Contains(err.Error(), "overdue") {
			t.Errorf("the lease is suspect because of %v", err)
		}
		l.Release(context.Background())
	})
}
