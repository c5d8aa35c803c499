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
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
	"github.com/pawl-go/pawl/internal/schedule"
)

// Client has the leases of one client of a store.
type Client struct {
	// The order of locks: Client.mu, which guards the lines and the grants; then
	// grant.mu, which guards a grant and its leases; then the locks inside sched, renewals,
	// the observer, the participant and random, which call no other code while they hold them.
	// No lock is held during a request to the store, while a context is cancelled, or while a
	// user's observer is called. No function returns with a lock held.

	participant *participant.Participant // the half of the store; set before connected is
	expires     bool                     // the store ends leases
	connected   atomic.Bool
	link        link
	config      Config
	observer    Observer
	sched       *schedule.Schedule[*grant]
	renewals    *schedule.Workers[*grant]
	random      *random
	measured    atomic.Bool // measure has run, because a grant took long

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	calls      sync.WaitGroup // of Acquire and Try; Add under mu, while not closed
	background sync.WaitGroup // repetitions of Release

	mu     sync.Mutex // guards the fields below
	closed bool
	lines  map[string]*queue
	grants map[*grant]struct{} // that have not been given back

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
	Released(l *Lease, err error, kept bool) // kept for the next call
	Answered(took, ttl time.Duration)        // the store took so long to answer, which is long for leases of ttl
}

// New returns a client without a store.
func New(config Config) *Client {
	ctx, cancel := context.WithCancel(context.Background())
	return &Client{
		config: config, observer: config.Observer, random: newRandom(config.Holder),
		ctx: ctx, cancel: cancel, ended: make(chan struct{}), lines: make(map[string]*queue), grants: make(map[*grant]struct{}),
		sched: schedule.New((*grant).wake), renewals: schedule.NewWorkers(maxRenewals, (*grant).renew),
	}
}

// Use gives the client its store, which the client closes. It is called once, before each method that needs a store.
func (c *Client) Use(store driver.Store) {
	c.participant = participant.New(store, participant.Options{
		Random: c.random.another(), News: c.config.News, NotEnded: c.config.NotEnded,
	})
	c.expires = c.participant.Caps().Expiry
	c.connected.Store(true)
}

// Connected reports whether the client has a store.
func (c *Client) Connected() bool { return c.connected.Load() }

// Participant returns the client's half of its store.
func (c *Client) Participant() *participant.Participant { return c.participant }

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
	return participant.Until(ctx, c.ctx)
}

// random is the source of a client's random pauses. Its seed comes from the client's
// holder and the time at which the client was made, so that every run in a bubble of
// fake time is the same.
type random struct {
	seed   uint64
	mu     sync.Mutex
	source *rand.Rand
}

func newRandom(h *driver.Holder) *random {
	who := fnv.New64()
	fmt.Fprint(who, *h)
	seed := who.Sum64()
	return &random{seed: seed, source: rand.New(rand.NewPCG(seed, uint64(time.Now().UnixNano())))}
}

// another returns a source of its own for the participant.
func (r *random) another() rand.Source { return rand.NewPCG(^r.seed, uint64(time.Now().UnixNano())) }

// chance returns a random number in [0, 1).
func (r *random) chance() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Float64()
}

// spread returns a random duration in [0, d).
func (r *random) spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * r.chance())
}

// StopTimers stops the client's timers, as a suspend of the machine does.
func (c *Client) StopTimers() { c.sched.Stop() }

// HoldScheduler stops the scheduler from ending the contexts of leases, until release is called.
func (c *Client) HoldScheduler() (release func()) { return c.sched.Hold() }

// Lines returns how many names have a line.
func (c *Client) Lines() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines)
}
