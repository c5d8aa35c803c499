// SPDX-License-Identifier: Apache-2.0

package pawl

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

// Client acquires leases from one store. It is safe for concurrent use; a process needs
// only one for each store. The packages of the stores make it.
type Client struct {
	// Locks are taken in this order: Client.mu, which guards the lines and the list of
	// grants; grant.mu, which guards a grant and its leases; and those within sched,
	// renewals, observer, timeouts and random, under which no other code is called.
	// None is held during a request to the store, the cancelling of a context or a call
	// of an observer, and no function returns with one held.

	// These two are set when the client is connected. Every call that uses the store asks
	// ready before.
	store      *participant.Participant
	guarantees Guarantees
	connected  atomic.Bool
	open       func(context.Context) (driver.Store, error)
	require    Guarantees
	ttl        time.Duration
	holder     *Holder
	observer   reporter
	sched      *schedule.Schedule[*grant]
	renewals   *schedule.Workers[*grant]
	random     *random
	longest    atomic.Int64 // MaxTTL of the store, a time.Duration, as last heard; 0 before
	measured   atomic.Bool  // how long an answer takes, as the first grants took long

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	calls      sync.WaitGroup // of Acquire and TryAcquire; Add under mu, while not closed
	background sync.WaitGroup // repetitions of Release

	mu       sync.Mutex // guards the fields below
	closed   bool
	lines    map[string]*queue
	grants   *grant         // the first in the list of those not given back yet
	dial     *dial          // to the store, under way; nil if none is
	redialAt driver.Instant // before which the next dial does not begin; only the dial under way uses it

	ended    chan struct{} // closed when Close has ended, with closeErr
	closeErr error
}

// New returns a client of store. Close of the client also closes store. New
// returns an error if an option is out of range, and one that wraps
// errors.ErrUnsupported if the store lacks a guarantee in opts.Require.
func New(store driver.Store, opts *Options) (*Client, error) {
	if store == nil {
		return nil, &Error{Op: "open", Err: errors.New("New has no store: give it one, such as new(memlock.Store).Participant(), or use Open")}
	}
	c, err := newClient(opts)
	if err != nil {
		return nil, err
	}
	if err := c.use(store); err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	return c, nil
}

// newClient returns a client without a store.
func newClient(opts *Options) (*Client, error) {
	if opts == nil {
		opts = &Options{}
	}
	ttl := opts.TTL
	if ttl == 0 {
		ttl = DefaultTTL
	}
	if err := checkTTL(ttl); err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	ctx, cancel := context.WithCancel(context.Background())
	holder := fillHolder(opts.Holder)
	c := &Client{
		require:  opts.Require,
		ttl:      ttl,
		holder:   holder,
		random:   newRandom(holder),
		observer: newReporter(opts.Observer, opts.Logger),
		ctx:      ctx,
		cancel:   cancel,
		ended:    make(chan struct{}),
		lines:    make(map[string]*queue),
		sched:    schedule.New((*grant).wake),
		renewals: schedule.NewWorkers(maxRenewals, (*grant).renew),
	}
	return c, nil
}

// Guarantees returns what the client's store can promise, or nothing as long as the store has
// been out of reach.
func (c *Client) Guarantees() Guarantees {
	if !c.connected.Load() {
		return Guarantees{}
	}
	return c.guarantees
}

// Close releases the leases that are still held and removes what lost ones have left in
// the store. It waits for the requests in the background and then closes the store. A store that does not answer costs some five seconds in all, however many leases
// there are: those that are left end with their TTL. A part of the store that answers gets
// its leases back, whatever another part does. Waiting calls of Acquire return an error. A
// second call of Close waits for the first and returns the same.
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
	if c.connected.Load() {
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
	all.giveBack(c.allOpen()) // what they have left
	errs := all.wait()
	c.sched.Stop()
	c.renewals.Close()
	c.background.Wait()
	if c.store != nil {
		errs = append(errs, c.store.Close())
	}
	return only(errors.Join(errs...))
}

const (
	// requestTimeout bounds a request that has no context of its own.
	requestTimeout = participant.RequestTimeout

	// Bounds of the pause before a call begins anew.
	minPause = 20 * time.Millisecond
	maxPause = 500 * time.Millisecond

	// closeGrace is how long Close gives the calls to end with ErrClosed, before it ends the
	// leases, in whose contexts some of them wait.
	closeGrace = 100 * time.Millisecond

	// maxCloseErrors bounds the leases whose errors Close returns.
	maxCloseErrors = 8
)

// closing gives back the leases that are still held, until closeTimeout is over. The others only
// end here.
type closing struct {
	begun map[*Lease]bool
	wg    sync.WaitGroup

	mu   sync.Mutex // guards the fields below
	errs []error
	more int
}

// giveBack begins to give back leases, all at a time: those that a part of the store does not
// answer must not take the time of the others.
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
		l.Release(context.Background()) // a hold fewer
	}
	err := l.Release(context.Background())
	if err == nil || errors.Is(err, ErrLost) {
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
		return append(cl.errs, fmt.Errorf("pawl: %d more leases could not be given back", cl.more))
	}
	return cl.errs
}

// allOpen returns the leases that have not been given back yet. Of a client that is closed
// none is handed over, and none is added but by calls under way.
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
