// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// Clients tells RunClients how to reach a store. Open is required; tests whose hook is nil are skipped.
type Clients struct {
	// Open returns a new client, which the suite closes when the test ends.
	Open func(t testing.TB) *pawl.Client

	// Bubble runs f in fake time, for a store in this process. Nil runs f directly.
	Bubble func(t *testing.T, f func(*testing.T))

	// Away stops all answers of the store until back is called. It must not disturb other tests.
	Away func(t testing.TB) (back func())
}

// RunClients runs real clients on a store, for a short time with each kind of lease: it shows that the store
// and package participant fit together.
func RunClients(t *testing.T, c Clients) {
	for _, run := range []struct {
		name string
		f    func(*visit)
		ok   bool
	}{
		{"exclusive", (*visit).exclusive, true}, {"wait", (*visit).wait, true}, {"shared", (*visit).shared, true},
		{"slots", (*visit).slots, true}, {"break", (*visit).broken, true}, {"all", (*visit).all, true}, {"away", (*visit).away, c.Away != nil},
	} {
		t.Run(run.name, func(t *testing.T) {
			if !run.ok {
				t.Skip("the store has no hook for it")
			}
			f := func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*farAway)
				t.Cleanup(cancel)
				v := &visit{TB: t, c: c, ctx: ctx, name: "clients-" + rand.Text()[:8]}
				v.a, v.b = v.open(), v.open()
				run.f(v)
			}
			if c.Bubble != nil {
				c.Bubble(t, f)
			} else {
				f(t)
			}
		})
	}
}

// visit is one test with two clients.
type visit struct {
	testing.TB
	c    Clients
	a, b *pawl.Client
	ctx  context.Context
	name string
}

const (
	visitTTL  = 5 * time.Second
	farAway   = time.Minute
	inTheLine = 50 * time.Millisecond
)

func (v *visit) open() *pawl.Client {
	c := v.c.Open(v.TB)
	v.Cleanup(func() { c.Close() })
	return c
}

// get acquires the name for a client, at once.
func (v *visit) get(c *pawl.Client, opts ...pawl.Option) *pawl.Lease {
	v.Helper()
	l, err := c.Acquire(v.ctx, v.name, opts...)
	if err != nil {
		v.Fatalf("Acquire = %v; want a lease", err)
	}
	return l
}

// later acquires the name for a client that has to wait.
func (v *visit) later(c *pawl.Client, opts ...pawl.Option) (got func() *pawl.Lease) {
	v.Helper()
	type result struct {
		l   *pawl.Lease
		err error
	}
	done := make(chan result, 1)
	go func() {
		l, err := c.Acquire(v.ctx, v.name, opts...)
		done <- result{l, err}
	}()
	select {
	case r := <-done:
		v.Fatalf("Acquire = %v, %v; want that it waits", r.l, r.err)
	case <-time.After(inTheLine):
	}
	return func() *pawl.Lease {
		v.Helper()
		r := <-done
		if r.err != nil {
			v.Fatalf("Acquire of a waiter = %v; want a lease", r.err)
		}
		return r.l
	}
}

// held checks that a client cannot have the name.
func (v *visit) held(c *pawl.Client, opts ...pawl.Option) {
	v.Helper()
	l, err := c.TryAcquire(v.ctx, v.name, opts...)
	if !errors.Is(err, pawl.ErrHeld) {
		v.Fatalf("TryAcquire = %v, %v; want ErrHeld", l, err)
	}
}

func (v *visit) give(ls ...*pawl.Lease) {
	v.Helper()
	for _, l := range ls {
		if err := l.Release(v.ctx); err != nil {
			v.Fatalf("Release = %v; want nil", err)
		}
	}
}

// ends waits until a lease has ended.
func (v *visit) ends(l *pawl.Lease) {
	v.Helper()
	select {
	case <-l.Done():
	case <-v.ctx.Done():
		v.Fatalf("a lease of %v has not ended", visitTTL)
	}
}

func (v *visit) exclusive() {
	first := v.get(v.a)
	v.held(v.b)
	v.give(first)
	second := v.get(v.b)
	if v.a.Guarantees().Fencing && second.Token() <= first.Token() {
		v.Errorf("token %d after %d", second.Token(), first.Token())
	}
	v.held(v.a)
	v.give(second)
}

// wait hands the name to and fro, also to a waiter of the same client.
func (v *visit) wait() {
	l := v.get(v.a)
	for _, c := range []*pawl.Client{v.b, v.a, v.a, v.b} {
		next := v.later(c)
		v.give(l)
		got := next()
		if v.a.Guarantees().Fencing && got.Token() <= l.Token() {
			v.Errorf("token %d after %d", got.Token(), l.Token())
		}
		l = got
	}
	v.give(l)
}

func (v *visit) shared() {
	if !v.a.Guarantees().Shared {
		v.Skip("the store has no shared leases")
	}
	one, two := v.get(v.a, pawl.Shared()), v.get(v.b, pawl.Shared())
	writer := v.later(v.a)
	v.give(one)
	v.held(v.b)
	v.give(two)
	l := writer()
	reader := v.later(v.b, pawl.Shared())
	v.give(l)
	v.give(reader())
}

func (v *visit) slots() {
	if !v.a.Guarantees().Slots {
		v.Skip("the store has no slots")
	}
	one, two := v.get(v.a, pawl.Slots(2)), v.get(v.b, pawl.Slots(2))
	v.held(v.a, pawl.Slots(2))
	var other *pawl.SlotsError
	if _, err := v.b.TryAcquire(v.ctx, v.name, pawl.Slots(3)); !errors.As(err, &other) {
		v.Errorf("TryAcquire of one of another number of slots = %v; want a SlotsError", err)
	}
	next := v.later(v.a, pawl.Slots(2))
	v.give(two)
	v.give(next(), one)
}

func (v *visit) broken() {
	if _, err := v.a.Inspect(v.ctx, v.name); errors.Is(err, errors.ErrUnsupported) {
		v.Skip(err)
	}
	l := v.get(v.a, pawl.TTL(visitTTL))
	next := v.later(v.b)
	done := make(chan error, 1)
	go func() { done <- v.b.Break(v.ctx, v.name, l.ID(), "it is stuck") }()
	v.ends(l)
	_ = l.Release(v.ctx) // it is lost; a store of files only asks for it back
	if err := <-done; err != nil {
		v.Fatalf("Break = %v; want nil", err)
	}
	var lost *pawl.LostError
	if !errors.As(l.Err(), &lost) || lost.Reason != pawl.ReasonBroken || lost.Why != "it is stuck" || lost.By == nil {
		v.Errorf("the lease has ended with %v; want who has broken it, and why", l.Err())
	}
	v.give(next())
}

func (v *visit) all() {
	names := []string{v.name + "/b", v.name, v.name + "/a"}
	ls, err := v.a.AcquireAll(v.ctx, names)
	if err != nil {
		v.Fatalf("AcquireAll = %v; want leases", err)
	}
	v.held(v.b)
	if err := ls.Release(v.ctx); err != nil {
		v.Errorf("Release = %v; want nil", err)
	}
	v.give(v.get(v.b))
}

// away: a lease is lost when the store does not answer. Another is granted when it is back.
func (v *visit) away() {
	l := v.get(v.a, pawl.TTL(visitTTL))
	back := v.c.Away(v.TB)
	v.ends(l)
	if !errors.Is(l.Err(), pawl.ErrLost) {
		v.Errorf("the lease has ended with %v; want ErrLost", l.Err())
	}
	back()
	for {
		l, err := v.b.TryAcquire(v.ctx, v.name)
		if err == nil {
			v.give(l)
			return
		}
		if v.ctx.Err() != nil {
			v.Fatalf("TryAcquire after the store is back = %v; want a lease", err)
		}
		time.Sleep(inTheLine)
	}
}
