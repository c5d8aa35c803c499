// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/memlock"
)

// away is a store that can be out of reach. To connect takes slow.
type away struct {
	memlock.Store
	up     atomic.Bool
	err    error // while it is not up; nil: errDown
	slow   time.Duration
	opened int
	closed int
}

var errDown = fmt.Errorf("%w: %w", pawl.ErrUnavailable, errNet)

func (a *away) open(ctx context.Context) (driver.Store, error) {
	a.opened++
	select {
	case <-time.After(a.slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !a.up.Load() {
		return nil, cmp.Or(a.err, errDown)
	}
	return &counted{a.Participant(), a}, nil
}

type counted struct {
	driver.Store
	store *away
}

func (d *counted) Close() error { d.store.closed++; return d.Store.Close() }

func connect(t *testing.T, a *away, opts *pawl.Options) *pawl.Client {
	t.Helper()
	c, err := pawl.Connect(t.Context(), a.open, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// callsOf are all calls of a client that ask its store. What they acquire they give back.
func callsOf(c *pawl.Client) map[string]func(ctx context.Context) error {
	work := func(context.Context, *pawl.Lease) error { return nil }
	back := func(l interface{ Release(context.Context) error }, err error) error {
		if err == nil {
			err = l.Release(context.Background())
		}
		return err
	}
	return map[string]func(ctx context.Context) error{
		"Acquire":       func(ctx context.Context) error { return back(c.Acquire(ctx, "a")) },
		"TryAcquire":    func(ctx context.Context) error { return back(c.TryAcquire(ctx, "a")) },
		"AcquireAll":    func(ctx context.Context) error { return back(c.AcquireAll(ctx, []string{"a", "b"})) },
		"TryAcquireAll": func(ctx context.Context) error { return back(c.TryAcquireAll(ctx, []string{"a", "b"})) },
		"Do":            func(ctx context.Context) error { return c.Do(ctx, "a", work) },
		"Elect":         func(ctx context.Context) error { return c.Elect(ctx, "a", work) },
		"Inspect":       func(ctx context.Context) error { _, err := c.Inspect(ctx, "a"); return err },
		"List":          func(ctx context.Context) error { _, err := c.List(ctx, ""); return err },
		"Store":         func(ctx context.Context) error { _, err := c.Store(ctx); return err },
		"Break":         func(ctx context.Context) error { return c.Break(ctx, "a", "id", "") },
		"Ping":          c.Ping,
	}
}

// TestConnectsWhenUsed: a client can be made before its store is there. Until then every call says
// that the store is unavailable.
func TestConnectsWhenUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, a := t.Context(), &away{}
		c := connect(t, a, nil)
		for what, call := range callsOf(c) {
			err := call(ctx)
			if !errors.Is(err, pawl.ErrUnavailable) || !errors.Is(err, errNet) {
				t.Errorf("%s = %v; want ErrUnavailable, with the reason", what, err)
			}
			wantOne(t, what, err)
		}
		for _, err := range c.Observe(ctx, "a") {
			wantIs(t, err, pawl.ErrUnavailable)
			break
		}
		if c.Guarantees() != (pawl.Guarantees{}) {
			t.Errorf("a store that was never there guarantees %+v", c.Guarantees())
		}
		a.up.Store(true)
		if err := c.Ping(ctx); err != nil {
			t.Error(err)
		}
		l, err := c.Acquire(ctx, "a", pawl.Shared())
		if err != nil || !c.Guarantees().Fencing {
			t.Fatal(err, c.Guarantees())
		}
		release(t, l)
		if err := c.Close(); err != nil || a.closed != 1 {
			t.Errorf("Close = %v, and %d drivers are closed; want one", err, a.closed)
		}
		wantIs(t, c.Ping(ctx), pawl.ErrClosed)
	})
}

// TestConnectsAtAPace: calls that fail because nothing listens are not followed by an attempt to connect
// at once.
func TestConnectsAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &away{}
		c := connect(t, a, nil)
		defer c.Close()
		for began := time.Now(); time.Since(began) < 10*time.Second; {
			if _, err := c.TryAcquire(t.Context(), "a"); !errors.Is(err, pawl.ErrUnavailable) {
				t.Fatalf("TryAcquire = %v; want ErrUnavailable", err)
			}
			if a.opened > 25 {
				t.Fatalf("the client has tried to connect %d times in %v", a.opened, time.Since(began))
			}
		}
	})
}

// TestCauseWhileConnecting: the error of a call whose context ends before the store is there says why it ended.
func TestCauseWhileConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &away{}
		c := connect(t, a, nil)
		defer c.Close()
		a.slow = time.Second
		for what, call := range callsOf(c) {
			cause := errors.New("why " + what + " ended")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Millisecond, func() { cancel(cause) })
			if err := call(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
				t.Errorf("%s = %v; want context.Canceled, with its cause", what, err)
			}
		}
	})
}

// TestCallsShareAConnection: several calls wait for one attempt, each for as long as it likes.
func TestCallsShareAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &away{}
		c := connect(t, a, nil)
		defer c.Close()
		a.up.Store(true)
		a.slow = time.Second
		few := within(t, time.Millisecond)
		errs := make(chan error)
		go func() {
			_, err := c.TryAcquire(few, "a")
			errs <- err
		}()
		for i := range 3 {
			go func() {
				l, err := c.Acquire(t.Context(), fmt.Sprint(i))
				if err == nil {
					err = l.Release(t.Context())
				}
				errs <- err
			}()
		}
		err := <-errs
		wantIs(t, err, context.DeadlineExceeded)
		wantOne(t, "TryAcquire", err)
		for range 3 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if a.opened != 2 {
			t.Errorf("connected %d times after the first", a.opened-1)
		}
	})
}

// TestCloseWhileConnecting ends the attempt, and the calls that wait for it.
func TestCloseWhileConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &away{}
		c := connect(t, a, nil)
		a.slow = time.Hour
		errs := make(chan error)
		go func() { errs <- c.Ping(t.Context()) }()
		synctest.Wait()
		began := time.Now()
		if err := c.Close(); err != nil || time.Since(began) > time.Second {
			t.Errorf("Close = %v, after %v", err, time.Since(began))
		}
		wantIs(t, <-errs, pawl.ErrClosed)
	})
}

// TestConnectRefuses what does not pass.
func TestConnectRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, want := range []error{errNet, fmt.Errorf("%w: %w", pawl.ErrUnavailable, pawl.ErrDenied),
			fmt.Errorf("%w: %w", pawl.ErrUnavailable, fs.ErrInvalid)} {
			_, err := pawl.Connect(t.Context(), func(context.Context) (driver.Store, error) { return nil, want }, nil)
			if err == nil {
				t.Errorf("Connect = %v; want %v", err, want)
			}
		}
		needs := &pawl.Options{Require: pawl.Guarantees{Expiry: true}}
		a := &away{Store: memlock.Store{NoExpiry: true}}
		a.up.Store(true)
		if _, err := pawl.Connect(t.Context(), a.open, needs); !errors.Is(err, errors.ErrUnsupported) || a.closed != 1 {
			t.Errorf("Connect = %v, and %d drivers are closed", err, a.closed)
		}
		a.up.Store(false)
		c := connect(t, a, needs)
		a.up.Store(true)
		if err := c.Ping(t.Context()); !errors.Is(err, errors.ErrUnsupported) || a.closed != 2 {
			t.Errorf("Ping = %v, and %d drivers are closed", err, a.closed)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		_, err := pawl.Connect(t.Context(), (&away{}).open, &pawl.Options{TTL: -1})
		if err == nil {
			t.Error("a negative TTL is accepted")
		}
	})
}

// TestFirstRefused: a store that answers the first connection and refuses to be used, as one does that is reading its data
// from disk, makes calls wait that wait, as it does later. Others hear of it.
func TestFirstRefused(t *testing.T) {
	loading := storekit.OfKind(driver.ErrRefused, fmt.Errorf("%w: LOADING", pawl.ErrUnavailable))
	for _, name := range []string{"Acquire", "AcquireAll", "Elect"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []time.Duration
				began := time.Now()
				a := &away{err: loading}
				c := connect(t, a, &pawl.Options{Observer: pawl.Observer{Refused: func(e pawl.Event) {
					if errors.Is(e.Err, driver.ErrRefused) && errors.As(e.Err, new(*pawl.Error)) {
						told = append(told, time.Since(began))
					}
				}}})
				defer c.Close()
				if _, err := c.TryAcquire(t.Context(), "a"); !errors.Is(err, pawl.ErrUnavailable) {
					t.Errorf("TryAcquire = %v; want ErrUnavailable", err)
				}
				ctx := within(t, 90*time.Second)
				wait := callsOf(c)[name]
				err := wait(ctx)
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, pawl.ErrUnavailable) || !strings.Contains(err.Error(), "refuses requests: ") {
					t.Errorf("after %v: %v; want that the time is over, and why", time.Since(began), err)
				}
				if synctest.Wait(); len(told) != 2 || told[0] < time.Second || told[1] < time.Minute {
					t.Errorf("told after %v; want after a second and a minute", told)
				}
				time.AfterFunc(time.Minute, func() { a.up.Store(true) })
				if err := wait(t.Context()); err != nil {
					t.Error(err)
				}
				a.up.Store(false)
			})
		})
	}
}
