// SPDX-License-Identifier: Apache-2.0

// Package client has the leases of a client of package pawl: the line of its own waiters, hand-over from one to the
// next, renewals, loss, contexts, parked leases, deadlocks and Close. Package trust decides until when a lease is
// trusted, and package line which waiter is next; this package carries that out. Package participant talks to the store.
//
// Package pawl adds what users see: it checks names and options, and has the types of errors and the observers.
//
// A lease has four types, from the user to the store:
//
//	Lease              what one call of Acquire got; grant.present is the one that has the grant now
//	trust.Lease        the state of a Lease: until when it is trusted, and what is due next
//	grant              what the store granted; one Lease after another has it, by hand-over
//	participant.Lease  the lease at the store, from the first request to its end; grant.remote
//
// trust.Grant only has what trust.Begin needs to know of a grant.
package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
	"github.com/pawl-go/pawl/internal/schedule"
)

// Client has the leases of one client of a store.
type Client struct {
	// The order of locks: Client.mu, which guards the lines and the list of grants; then
	// grant.mu, which guards a grant and its leases; then the locks inside sched, renewals,
	// the observer, the participant and random, which call no other code while they hold them.
	// No lock is held during a request to the store, while a context is cancelled, or while a
	// user's observer is called. No function returns with a lock held.

	store     *participant.Participant // set before connected is
	expires   bool                     // the store ends leases
	connected atomic.Bool
	link      link
	config    Config
	observer  Observer
	sched     *schedule.Schedule[*grant]
	renewals  *schedule.Workers[*grant]
	random    *random
	measured  atomic.Bool // measure has run, because a grant took long

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	calls      sync.WaitGroup // of Acquire and Try; Add under mu, while not closed
	background sync.WaitGroup // repetitions of Release

	mu     sync.Mutex // guards the fields below
	closed bool
	lines  map[string]*queue
	grants *grant // a list of the grants that have not been given back

	ended    chan struct{} // closed when Close has ended, with closeErr
	closeErr error
}

// Config is what a client needs of its owner.
type Config struct {
	Holder   *driver.Holder
	Observer Observer
	News     func(driver.News)
	NotEnded func(error)
	Wrap     func(op, name string, err error) error // makes an error for users
	// Search returns the deadlock of the waiter with an id in two answers of the store, or nil, and how many calls of
	// the cycle hold leases with greater ids than this call.
	Search func(before, after []*driver.Info, lease string) (rank int, dead error)
	// Caller returns the holder for the record of a call, and the context of the call if the observer wants it.
	Caller func(ctx context.Context) (*driver.Holder, context.Context)
}

// Observer hears what happens to leases. It must not block or call the client.
type Observer interface {
	Acquired(l *Lease, waited time.Duration)
	Renewed(l *Lease, took, left, ttl time.Duration)
	Suspect(l *Lease, err error, left time.Duration)
	Lost(l *Lease, err error)
	Released(l *Lease, err error)
	Kept(l *Lease)                    // released, and kept for the next call
	Answered(took, ttl time.Duration) // the store took so long to answer, which is long for leases of ttl
}

// New returns a client without a store.
func New(config Config) *Client {
	ctx, cancel := context.WithCancel(context.Background())
	return &Client{
		config: config, observer: config.Observer, random: newRandom(config.Holder),
		ctx: ctx, cancel: cancel, ended: make(chan struct{}), lines: make(map[string]*queue),
		sched: schedule.New((*grant).wake), renewals: schedule.NewWorkers(maxRenewals, (*grant).renew),
	}
}

// Use gives the client its store, which the client closes. It is called once, before each method that needs a store.
func (c *Client) Use(store driver.Store) {
	c.store = participant.New(store, participant.Options{
		Random: c.random.another(), News: c.config.News, NotEnded: c.config.NotEnded,
	})
	c.expires = c.store.Caps().Expiry
	c.connected.Store(true)
}

// Connected reports whether the client has a store.
func (c *Client) Connected() bool { return c.connected.Load() }

// Store returns the client's half of its store.
func (c *Client) Store() *participant.Participant { return c.store }

// Closed returns a channel that is closed when Close has begun.
func (c *Client) Closed() <-chan struct{} { return c.ctx.Done() }

// IsClosed reports whether Close has begun.
func (c *Client) IsClosed() bool { return c.ctx.Err() != nil }

// Spread returns a random duration in [0, d).
func (c *Client) Spread(d time.Duration) time.Duration { return c.random.spread(d) }

// Go runs f in the background, in a context that ends with Close, which waits for f. It reports false if the client
// is closed.
func (c *Client) Go(f func(ctx context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.background.Go(func() { f(c.ctx) })
	}
	return !c.closed
}

// UntilClose returns a copy of ctx that ends when the client is closed.
func (c *Client) UntilClose(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return participant.Lent(ctx, c.ctx), func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// Close gives all leases back, waits for the work in the background, and closes the store. A second call waits for the
// first and returns the same.
func (c *Client) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		c.closeErr = c.end()
		close(c.ended)
	}
	<-c.ended
	return c.closeErr
}

func (c *Client) end() error {
	if c.Connected() {
		c.store.Stop()
	}
	c.cancel()
	calls := make(chan struct{})
	go func() {
		c.calls.Wait()
		close(calls)
	}()
	select {
	case <-calls:
	case <-time.After(closeGrace): // a part of the store hangs
	}
	all := closing{begun: make(map[*Lease]bool)}
	all.giveBack(c.allOpen())
	<-calls
	all.giveBack(c.allOpen()) // leases that these calls have left
	errs := all.wait()
	c.sched.Stop()
	c.renewals.Close()
	c.background.Wait()
	if c.store != nil {
		if err := c.store.Close(); err != nil {
			errs = append(errs, c.config.Wrap("close", "", err))
		}
	}
	return errors.Join(errs...)
}

const (
	// closeGrace is how long Close waits for calls to return ErrClosed before it ends the leases.
	// Some calls wait in the contexts of these leases, and would return the end of a lease instead.
	closeGrace = 100 * time.Millisecond

	// maxCloseErrors bounds how many errors of leases Close returns.
	maxCloseErrors = 8
)

// closing gives back the leases that are still held. The participant bounds the time.
type closing struct {
	begun map[*Lease]bool
	wg    sync.WaitGroup

	mu   sync.Mutex // guards the fields below
	errs []error
	more int
}

// giveBack begins to give back all leases at once: if a part of the store does not answer, the other
// leases must not wait for it.
func (cl *closing) giveBack(leases []*Lease) {
	for _, l := range leases {
		if !cl.begun[l] {
			cl.begun[l] = true
			cl.wg.Go(func() { cl.release(l) })
		}
	}
}

func (cl *closing) release(l *Lease) {
	for l.Holds() > 1 {
		l.Release(context.Background()) // takes one hold back
	}
	err := l.Release(context.Background())
	if err == nil || errors.Is(err, driver.ErrLost) {
		return
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if len(cl.errs) < maxCloseErrors {
		cl.errs = append(cl.errs, err)
	} else {
		cl.more++
	}
}

func (cl *closing) wait() []error {
	cl.wg.Wait()
	if cl.more > 0 {
		return append(cl.errs, fmt.Errorf("%d more leases could not be released: they end with their TTL", cl.more))
	}
	return cl.errs
}

// allOpen returns the leases that have not been given back. A closed client hands none over,
// and only calls under way add some.
func (c *Client) allOpen() []*Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	var leases []*Lease
	for g := c.grants; g != nil; g = g.next {
		g.mu.Lock()
		leases = append(leases, g.present)
		g.mu.Unlock()
	}
	return leases
}
