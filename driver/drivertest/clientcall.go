// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
)

// client returns a client that is a new participant, closed when the test ends.
func (e *env) client() *pawl.Client {
	c, _ := e.faultyClient()
	return c
}

// faultyClient returns a client with faults between it and the store. Its leases
// have the TTL Harness.TTL. The faults end before the client is closed.
func (e *env) faultyClient(rules ...Rule) (*pawl.Client, *Faulty) {
	e.Helper()
	f := NewFaulty(e.store.Open(e.TB), rules...)
	c, err := pawl.New(f.Driver(), &pawl.Options{TTL: e.h.TTL, Holder: pawl.Holder{Who: "drivertest"}})
	if err != nil {
		e.Fatalf("pawl.New = %v", err)
	}
	e.Cleanup(func() {
		if e.Failed() && f.faulty() {
			e.Logf("faults were %v", f)
		}
		f.Clear()
		f.Heal()
		if err := c.Close(); err != nil {
			e.Logf("Close: %v", err)
		}
	})
	return c, f
}

// get has c take name, which must be free.
func (e *env) get(c *pawl.Client, name string, opts ...pawl.Option) *pawl.Lease {
	e.Helper()
	l, err := c.TryAcquire(e.ctx, name, opts...)
	if err != nil {
		e.Fatalf("TryAcquire = %v; want a lease", err)
	}
	return l
}

// busy checks that c cannot have name.
func (e *env) busy(c *pawl.Client, name string) {
	e.Helper()
	if l, err := c.TryAcquire(e.ctx, name); !errors.Is(err, pawl.ErrHeld) {
		e.Fatalf("TryAcquire = %s, %v; want ErrHeld", showLease(l), err)
	}
}

// give releases l, which must still be held.
func (e *env) give(l *pawl.Lease) {
	e.Helper()
	if err := l.Release(e.ctx); err != nil {
		e.Fatalf("Release = %v; want nil", err)
	}
}

// mustEnd waits until l has ended, at most for d, and checks how.
func (e *env) mustEnd(l *pawl.Lease, d time.Duration, want error) {
	e.Helper()
	if !closed(l.Done(), d) {
		e.Fatalf("the lease has not ended after %v; want %v", d, want)
	}
	if err := l.Err(); !errors.Is(err, want) {
		e.Errorf("Err = %v; want %v", err, want)
	}
}

// acquiring is a Client.Acquire that waits in a goroutine of its own.
type acquiring struct {
	e      *env
	cancel context.CancelFunc
	done   chan struct{} // closed when it has returned

	// Set before done is closed.
	lease *pawl.Lease
	err   error
	at    time.Time
}

// queue starts an Acquire and returns when it waits, or has returned.
func (e *env) queue(c *pawl.Client, name string, opts ...pawl.Option) *acquiring {
	ctx, cancel := context.WithCancel(e.ctx)
	a := &acquiring{e: e, cancel: cancel, done: make(chan struct{})}
	e.calls.Go(func() {
		defer close(a.done)
		a.lease, a.err = c.Acquire(ctx, name, opts...)
		a.at = time.Now()
	})
	e.pause()
	return a
}

func (a *acquiring) waits() {
	a.e.Helper()
	select {
	case <-a.done:
		a.e.Fatalf("Acquire returned %s, %v; want it to wait", showLease(a.lease), a.err)
	default:
	}
}

// got returns the lease, which must come within d.
func (a *acquiring) got(d time.Duration) *pawl.Lease {
	a.e.Helper()
	if !closed(a.done, d) {
		a.e.Fatalf("Acquire still waits after %v", d)
	}
	if a.err != nil {
		a.e.Fatalf("Acquire = %v; want a lease", a.err)
	}
	return a.lease
}

// failed waits for the call to return an error that is want.
func (a *acquiring) failed(d time.Duration, want error) {
	a.e.Helper()
	if !closed(a.done, d) {
		a.e.Fatalf("Acquire still waits after %v; want %v", d, want)
	}
	if !errors.Is(a.err, want) || a.lease != nil {
		a.e.Fatalf("Acquire = %s, %v; want %v", showLease(a.lease), a.err, want)
	}
}

// showLease describes a lease that should not be.
func showLease(l *pawl.Lease) string {
	if l == nil {
		return "no lease"
	}
	return fmt.Sprintf("a lease with token %d", l.Token())
}

// witness sees every lease on one name and finds two that are trusted at a
// time, and tokens that do not grow.
type witness struct {
	e    *env
	mu   sync.Mutex
	last *pawl.Lease
	n    int
}

// saw is called with each lease as soon as it has been got.
//
// It reports no error falsely, whatever the scheduler does: leases look at the clock
// when they are checked, and the new one, checked last, has been trusted since it was
// granted. A lease of which saw learns too late has ended by then.
func (w *witness) saw(l *pawl.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	last := w.last
	if last == nil {
		w.last = l
		return
	}
	trusted := last.Err() == nil
	if l.Err() != nil {
		return
	}
	w.last = l
	if trusted {
		w.e.Errorf("two leases are trusted at a time: tokens %d and %d", last.Token(), l.Token())
	}
	if l.Token() <= last.Token() && l.Token() != 0 {
		w.e.Errorf("token %d after %d; want a greater one", l.Token(), last.Token())
	}
}
