// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Batch makes one call of requests of one kind that come while others are under way, as a call costs a server more
// than what it does for one lease. With few requests each is sent at once, by itself. Those that come after that
// go together as soon as one of these is answered, or has not come back for a while: it may be stuck, and a call of
// many waits for no lock. The fields are set before the first use.
type Batch[Q, A any] struct {
	// Few is how many calls are under way until requests wait. If it is 0, each request waits, and no answer ends
	// that: for requests that have time.
	Few int
	// Most is how many requests a call has at most.
	Most int
	// Wait is how long the first of those that wait does so at most.
	Wait time.Duration
	// Alone sends one request.
	Alone func(ctx context.Context, q Q) (A, error)
	// Together sends several, and returns their replies in the same order. Its context ends when the last of
	// their callers has gone: then the connection, which may be dead, is free for those that come again.
	Together func(ctx context.Context, all []Q) []Reply[A]

	mu     sync.Mutex
	flying int // calls under way
	next   []*member[Q, A]
}

// Reply is what a call of several requests has for one of them.
type Reply[A any] struct {
	Answer A
	Err    error
	Alone  bool // nothing: it has to be sent by itself
}

// member is a request that is not sent at once.
type member[Q, A any] struct {
	q    Q
	done chan struct{}

	reply Reply[A]  // set before done is closed
	lone  bool      // it goes by itself, in place of a call; Batch.mu guards it until done is closed
	with  *together // those that it is sent with, or nil; Batch.mu guards it
}

// together are requests in one call.
type together struct {
	here int // callers; Batch.mu guards it
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

// leave reports whether a request was sent.
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

// remind lets the first that waits go after a while. mu is held.
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

// landed is called when a call was answered.
func (b *Batch[Q, A]) landed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pass()
}

// pass lets the next ones go in place of a call. mu is held.
func (b *Batch[Q, A]) pass() {
	if b.Few == 0 || len(b.next) == 0 {
		b.flying--
		return
	}
	b.launch()
}

// launch sends the requests that wait (there is at least one) as a call that counts already. mu is held.
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
