// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
)

// client returns a client that is a new participant, closed when the test ends. Its leases
// do not end during the test.
func (e *env) client() *pawl.Client {
	c, _ := e.clientFor(e.long())
	return c
}

// briefClient returns one whose leases have the TTL Harness.TTL.
func (e *env) briefClient() *pawl.Client {
	c, _ := e.faultyClient()
	return c
}

// faultyClient returns a client with faults between it and the store. Its leases
// have the TTL Harness.TTL. The faults end before the client is closed.
func (e *env) faultyClient(rules ...Rule) (*pawl.Client, *Faulty) {
	e.Helper()
	return e.clientFor(e.h.TTL, rules...)
}

func (e *env) clientFor(ttl time.Duration, rules ...Rule) (*pawl.Client, *Faulty) {
	e.Helper()
	f := NewFaulty(e.store.Open(e.TB), rules...)
	f.pulse = &e.pulse
	c, err := pawl.New(f.Driver(), &pawl.Options{TTL: ttl, Holder: pawl.Holder{Who: "drivertest"}})
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
		if !errors.Is(err, pawl.ErrHeld) {
			e.unlessLate("TryAcquire = %v", err)
		}
		e.Fatalf("TryAcquire = %v; want a lease", err)
	}
	e.leases.add(l)
	return l
}

// busy checks that c cannot have name.
func (e *env) busy(c *pawl.Client, name string) {
	e.Helper()
	if l, err := c.TryAcquire(e.ctx, name); !errors.Is(err, pawl.ErrHeld) {
		if l != nil {
			e.mayHave(name)
		}
		e.Fatalf("TryAcquire = %s, %v; want ErrHeld", showLease(l), err)
	}
}

// mayHave begins the test again if a client got a lease on name because the machine was too
// late for the leases of others.
func (e *env) mayHave(name string) {
	e.Helper()
	if !e.leases.trusted(name) {
		e.unlessLate("all leases on %q have ended", name)
	}
}

// alive checks that l is trusted.
func (e *env) alive(l *pawl.Lease) {
	e.Helper()
	if err := l.Err(); err != nil {
		e.unlessLate("Err = %v", err)
		e.Fatalf("Err = %v; want nil", err)
	}
}

// leases are those that clients of a test were granted and that have not ended.
type leases struct {
	mu  sync.Mutex
	all []*pawl.Lease
}

func (ls *leases) add(l *pawl.Lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.all = append(ls.all, l)
}

// trusted reports whether there is one on name.
func (ls *leases) trusted(name string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.all = slices.DeleteFunc(ls.all, func(l *pawl.Lease) bool { return l.Err() != nil })
	return slices.ContainsFunc(ls.all, func(l *pawl.Lease) bool { return l.Name() == name })
}

// give releases l, which must still be held.
func (e *env) give(l *pawl.Lease) {
	e.Helper()
	if err := l.Release(e.ctx); err != nil {
		e.unlessLate("Release = %v", err)
		e.Fatalf("Release = %v; want nil", err)
	}
}

// mustEnd waits until l has ended, at most for d, and checks how.
func (e *env) mustEnd(l *pawl.Lease, d time.Duration, want error) {
	e.Helper()
	if !e.closed(l.Done(), d) {
		e.Fatalf("the lease has not ended after %v; want %v", d, want)
	}
	if err := l.Err(); !errors.Is(err, want) {
		e.Errorf("Err = %v; want %v", err, want)
	}
}

// acquiring is a Client.Acquire that waits in a goroutine of its own.
type acquiring struct {
	e      *env
	name   string
	cancel context.CancelFunc
	done   chan struct{} // closed when it has returned

	// Set before done is closed.
	lease *pawl.Lease
	err   error
	at    time.Time
}

// queue starts an Acquire and returns when it waits behind the earlier ones of its client, or has
// returned. A pause gives it the time to get to the store.
func (e *env) queue(c *pawl.Client, name string, opts ...pawl.Option) *acquiring {
	ctx, cancel := context.WithCancel(e.ctx)
	a := &acquiring{e: e, name: name, cancel: cancel, done: make(chan struct{})}
	in := &watched{Context: ctx, asked: make(chan struct{})}
	e.calls.Go(func() {
		defer close(a.done)
		a.lease, a.err = c.Acquire(in, name, opts...)
		a.at = time.Now()
	})
	select {
	case <-in.asked:
	case <-a.done:
	}
	e.pause()
	return a
}

// watched is a context that tells when a call first asks for its end: a client does so when the
// call has its place in the client's line.
type watched struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (w *watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.asked) })
	return w.Context.Done()
}

func (a *acquiring) waits() {
	a.e.Helper()
	select {
	case <-a.done:
		if a.lease != nil {
			a.e.mayHave(a.name)
		}
		a.e.Fatalf("Acquire returned %s, %v; want it to wait", showLease(a.lease), a.err)
	default:
	}
}

// got returns the lease, which must come within d.
func (a *acquiring) got(d time.Duration) *pawl.Lease {
	a.e.Helper()
	if !a.e.closed(a.done, d) {
		a.e.Fatalf("Acquire still waits after %v", d)
	}
	if a.err != nil {
		a.e.unlessLate("Acquire = %v", a.err)
		a.e.Fatalf("Acquire = %v; want a lease", a.err)
	}
	a.e.leases.add(a.lease)
	return a.lease
}

// failed waits for the call to return an error that is want.
func (a *acquiring) failed(d time.Duration, want error) {
	a.e.Helper()
	if !a.e.closed(a.done, d) {
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
