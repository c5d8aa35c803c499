// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Batch gathers requests of one kind into calls, because a call costs a server more than its work for one lease.
// While fewer than Few calls are under way, each request is sent at once, by itself. Later requests wait, and go
// together when a call is answered. They also go after Wait: the calls under way may be stuck behind a lock, and a
// call of several requests waits for none. Set the fields before the first use.
type Batch[Q, A any] struct {
	// Few is how many calls may be under way before requests wait. If it is 0, each request waits for Wait or until
	// there are Most: for requests that have time.
	Few int
	// Most is how many requests a call has at most.
	Most int
	// Wait is how long a request waits at most before it is sent.
	Wait time.Duration
	// Alone sends one request.
	Alone func(ctx context.Context, q Q) (A, error)
	// Together sends several requests, and returns their replies in the same order. Its context ends when the last
	// of their callers has gone: the connection may be dead, and their next requests need one.
	Together func(ctx context.Context, all []Q) []Reply[A]

	mu     sync.Mutex
	flying int // calls under way
	next   []*member[Q, A]
}

// Reply is the reply to one request of a call of several.
type Reply[A any] struct {
	Answer A
	Err    error
	Alone  bool // there is no reply: send the request by itself
}

// member is a request that waits before it is sent.
type member[Q, A any] struct {
	q    Q
	done chan struct{}

	reply Reply[A]  // set before done is closed
	lone  bool      // its caller sends it by itself, and it counts in flying; Batch.mu guards it until done is closed
	with  *together // the call that it is in, or nil; Batch.mu guards it
}

// together is a call of several requests.
type together struct {
	here int // callers that still wait; Batch.mu guards it
	gone context.CancelFunc
}

// Do sends a request, alone or together with others, and returns the answer. If ctx ends before that, the error is
// a *driver.Failure.
func (b *Batch[Q, A]) Do(ctx context.Context, q Q) (answer A, err error) {
	b.mu.Lock()
	if b.flying < b.Few {
		b.flying++
		b.mu.Unlock()
		defer b.landed()
		return b.Alone(ctx, q)
	}
	m := &member[Q, A]{q: q, done: make(chan struct{})}
	b.next = append(b.next, m)
	switch {
	case len(b.next) == b.Most && b.Few == 0:
		b.flying++
		b.launch()
	case len(b.next) == 1:
		b.remind()
	}
	b.mu.Unlock()
	select {
	case <-m.done:
	case <-ctx.Done():
		return answer, &driver.Failure{Err: ctx.Err(), Maybe: b.leave(m)}
	}
	if m.lone {
		defer b.landed()
	}
	if m.lone || m.reply.Alone {
		return b.Alone(ctx, q)
	}
	return m.reply.Answer, m.reply.Err
}

// leave withdraws the request of a caller that has gone. It reports whether the request was sent.
func (b *Batch[Q, A]) leave(m *member[Q, A]) (sent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch i := slices.Index(b.next, m); {
	case i >= 0:
		if b.next = slices.Delete(b.next, i, i+1); i == 0 && len(b.next) > 0 {
			b.remind()
		}
		return false
	case m.lone: // its turn has come just now
		b.pass()
		return false
	}
	if m.with.here--; m.with.here == 0 {
		m.with.gone()
	}
	return true
}

// remind sends the requests that wait after b.Wait, unless the first of them has gone by then. mu is held.
func (b *Batch[Q, A]) remind() {
	m := b.next[0]
	time.AfterFunc(b.Wait, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.next) > 0 && b.next[0] == m {
			b.flying++
			b.launch()
		}
	})
}

// landed notes that a call was answered.
func (b *Batch[Q, A]) landed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pass()
}

// pass sends the requests that wait in place of a call that has ended. mu is held.
func (b *Batch[Q, A]) pass() {
	if b.Few == 0 || len(b.next) == 0 {
		b.flying--
		return
	}
	b.launch()
}

// launch sends the requests that wait, of which there is at least one. flying counts the call already. mu is held.
func (b *Batch[Q, A]) launch() {
	all := b.next[:min(len(b.next), b.Most)]
	if b.next = b.next[len(all):]; len(b.next) > 0 {
		b.remind()
	}
	if len(all) == 1 {
		all[0].lone = true
		close(all[0].done)
		return
	}
	ctx, gone := context.WithCancel(context.Background())
	with := &together{len(all), gone}
	requests := make([]Q, len(all))
	for i, m := range all {
		m.with, requests[i] = with, m.q
	}
	go func() {
		defer b.landed()
		defer gone()
		for i, r := range b.Together(ctx, requests) {
			all[i].reply = r
			close(all[i].done)
		}
	}()
}
