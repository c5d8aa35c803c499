// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
)

// Tests of package pawl on top of the store.
var clientTests = []Test{
	{Name: "client-holds-beyond-the-ttl", run: clientHolds},
	{Name: "client-release-works-when-its-context-has-ended", run: clientRelease},
	{Name: "waiting-context-does-not-end-the-lease", run: clientWaitingContext},
	{Name: "client-waits-for-another-client", run: clientWaits},
	{Name: "client-serves-its-own-waiters-in-order", run: clientLine},
	{Name: "client-lets-other-clients-have-their-turn", Needs: fifo, run: clientTurns},
	{Name: "client-call-with-ended-context-records-nothing", run: clientEndedContext},
	{Name: "cancelled-client-call-leaves-no-ghost", run: clientNoGhost},
	{Name: "client-lease-in-the-instant-of-cancel-is-put-back", run: clientCancelInstant},
	{Name: "clients-never-overlap-under-load", run: clientHammer},
}

// soon is how long a client may take for what the store does at once: one
// without a queue asks again and again, with growing pauses.
func (e *env) soon() time.Duration { return 2*time.Second + e.h.Slack }

func clientHolds(e *env) {
	a, b := e.briefClient(), e.client()
	name := e.name("deploy")
	l := e.get(a, name)
	for range 4 {
		time.Sleep(e.h.TTL * 3 / 4)
		e.alive(l)
		e.busy(b, name)
	}
	if d := l.Deadline(); a.Guarantees().Expiry == d.IsZero() || !d.IsZero() && time.Until(d) <= 0 {
		e.Errorf("Deadline = %v; want one in the future, or none if leases do not expire", d)
	}
	e.give(l)
	e.give(e.get(b, name))
}

func clientRelease(e *env) {
	a, b := e.client(), e.client()
	l := e.get(a, e.name("deploy"))
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	for range 2 {
		if err := l.Release(ctx); err != nil {
			e.Errorf("Release with an ended context = %v; want nil", err)
		}
	}
	e.mustEnd(l, 0, pawl.ErrReleased)
	e.give(e.get(b, e.name("deploy")))
}

func clientWaitingContext(e *env) {
	a := e.queue(e.client(), e.name("deploy"))
	l := a.got(e.h.Slack)
	a.cancel()
	e.pause()
	if err := l.Err(); err != nil {
		e.Errorf("Err = %v after the end of the context that bounded the waiting; want nil", err)
	}
	e.busy(e.client(), e.name("deploy"))
	e.give(l)
}

func clientWaits(e *env) {
	name := e.name("deploy")
	for range 3 {
		l := e.get(e.client(), name)
		a := e.queue(e.client(), name)
		a.waits()
		e.give(l)
		next := a.got(e.soon())
		if next.Token() <= l.Token() && l.Token() != 0 {
			e.Errorf("token %d after %d; want a greater one", next.Token(), l.Token())
		}
		e.give(next)
	}
}

func clientLine(e *env) {
	c, name := e.client(), e.name("deploy")
	w := &witness{e: e}
	l := e.get(c, name)
	w.saw(l)
	var line []*acquiring
	for range 20 {
		line = append(line, e.queue(c, name))
	}
	for i, a := range line {
		e.give(l)
		l = a.got(e.soon())
		w.saw(l)
		for _, later := range line[i+1:] {
			later.waits()
		}
	}
	e.give(l)
	e.give(e.get(e.client(), name))
}

func clientTurns(e *env) {
	a, b, name := e.client(), e.client(), e.name("deploy")
	l := e.get(a, name)
	var line []*acquiring
	for range 40 {
		line = append(line, e.queue(a, name))
	}
	look := e.open()
	before := e.queued(look, name)
	other := e.queue(b, name)
	e.joined(look, name, before, other.done, e.soon())
	for i, own := range line {
		time.Sleep(time.Millisecond) // a client's turn is one of time
		e.give(l)
		select {
		case <-own.done:
		case <-other.done:
			e.give(other.got(0))
			l = own.got(e.soon())
			for _, own := range line[i+1:] {
				e.give(l)
				l = own.got(e.soon())
			}
			e.give(l)
			return
		case <-time.After(e.limit(e.soon())):
			e.Fatal("nobody got the name")
		}
		l = own.got(0)
	}
	e.Errorf("all %d waiters of one client were served before the one of another", len(line))
	e.give(l)
}

func clientEndedContext(e *env) {
	a, b, name := e.client(), e.client(), e.name("deploy")
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	if l, err := a.TryAcquire(ctx, name); l != nil || !errors.Is(err, context.Canceled) {
		e.Errorf("TryAcquire = %s, %v; want context.Canceled", showLease(l), err)
	}
	if l, err := a.Acquire(ctx, name); l != nil || !errors.Is(err, context.Canceled) {
		e.Errorf("Acquire = %s, %v; want context.Canceled", showLease(l), err)
	}
	e.give(e.get(b, name))
}

func clientNoGhost(e *env) {
	a, b, name := e.client(), e.client(), e.name("deploy")
	l := e.get(e.client(), name)
	atStore, inLine, next := e.queue(a, name), e.queue(a, name), e.queue(b, name)
	for _, gone := range []*acquiring{atStore, inLine} {
		gone.cancel()
		gone.failed(e.soon(), context.Canceled)
	}
	next.waits()
	e.give(l)
	e.give(next.got(e.soon()))
	// What a cancelled call may have left at the store is undone in the background, and long before a lease ends.
	e.eventually(e.soon(), func() (err error) {
		if l, err = a.TryAcquire(e.ctx, name); err != nil && !errors.Is(err, pawl.ErrHeld) {
			e.Fatalf("TryAcquire = %v; want a lease", err)
		} else if err != nil {
			err = fmt.Errorf("a cancelled call has left a lease: %w", err)
		}
		return err
	})
	e.give(l)
}

// clientCancelInstant is cancelInstant with the client's own line in between.
func clientCancelInstant(e *env) {
	a, b, name := e.client(), e.client(), e.name("deploy")
	for i := range e.rounds() {
		holder := a
		if i%2 == 0 {
			holder = b // then the waiter stands in the store's queue
		}
		l := e.get(holder, name)
		w := e.queue(b, name)
		if i%4 < 2 {
			w.cancel()
		} else {
			e.calls.Go(w.cancel)
		}
		if i%8 < 4 { // the client asks who has the name before it tells the store
			time.Sleep(time.Millisecond)
		}
		e.give(l)
		if !e.closed(w.done, e.soon()) {
			e.Fatal("Acquire goes on after its context has ended")
		}
		switch {
		case w.err == nil:
			e.give(w.lease)
		case !errors.Is(w.err, context.Canceled):
			e.Fatalf("Acquire = %v; want a lease or the context's error", w.err)
		}
		e.give(e.queue(a, name).got(e.soon()))
	}
}

func clientHammer(e *env) {
	w := &witness{e: e}
	var all sync.WaitGroup
	for range 3 {
		c := e.client()
		for range hammers / 3 {
			all.Go(func() {
				for range blows {
					l, err := c.Acquire(e.ctx, e.name("deploy"))
					if err != nil {
						e.Errorf("Acquire = %v", err)
						return
					}
					w.saw(l)
					time.Sleep(rand.N(time.Millisecond))
					if err := l.Release(e.ctx); err != nil {
						e.Errorf("Release = %v", err)
					}
				}
			})
		}
	}
	all.Wait()
	if w.n != hammers*blows {
		e.Errorf("%d leases; want %d", w.n, hammers*blows)
	}
}
