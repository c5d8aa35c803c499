// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
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

	driver     driver.Driver
	guarantees Guarantees
	ttl        time.Duration
	holder     *Holder
	observer   reporter
	sched      *schedule.Schedule[*grant]
	renewals   *schedule.Workers[*grant]
	random     *random
	timeouts   timeouts

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	calls      sync.WaitGroup // of Acquire and TryAcquire; Add under mu, while not closed
	background sync.WaitGroup // repetitions of Release

	mu     sync.Mutex // guards the fields below
	closed bool
	lines  map[string]*queue
	looks  map[string]*look // those under way, by name
	open   *grant           // the first in the list of those not given back yet

	ended    chan struct{} // closed when Close has ended, with closeErr
	closeErr error
}

// New returns a client of the store behind d. Close of the client also closes d. New
// returns an error if an option is out of range, and one that wraps
// errors.ErrUnsupported if the store lacks a guarantee in opts.Require.
func New(d driver.Driver, opts *Options) (*Client, error) {
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
	g := d.Guarantees()
	if missing := g.Missing(opts.Require); missing != nil {
		return nil, &Error{Op: "open", Err: fmt.Errorf("this store cannot give %s: use another store, or do not require it: %w",
			strings.Join(missing, ", "), errors.ErrUnsupported)}
	}
	ctx, cancel := context.WithCancel(context.Background())
	holder := fillHolder(opts.Holder)
	c := &Client{
		driver:     d,
		guarantees: g,
		ttl:        ttl,
		holder:     holder,
		random:     newRandom(holder),
		observer:   reporter{Observer: opts.Observer, log: opts.Logger},
		ctx:        ctx,
		cancel:     cancel,
		ended:      make(chan struct{}),
		lines:      make(map[string]*queue),
		looks:      make(map[string]*look),
		sched:      schedule.New((*grant).wake),
		renewals:   schedule.NewWorkers(maxRenewals, (*grant).renew),
	}
	if r, ok := d.(driver.Reporter); ok {
		r.OnNews(c.observer.news)
	}
	return c, nil
}

// Guarantees returns what the client's store can promise.
func (c *Client) Guarantees() Guarantees { return c.guarantees }

// Close releases the leases that are still held and removes what lost ones have left in
// the store. It waits for the requests in the background and then closes the store's
// driver. Waiting calls of Acquire return an error. A second call of Close waits for
// the first and returns the same.
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
	c.cancel()
	c.calls.Wait()
	c.timeouts.close()
	errs := c.releaseAll()
	c.sched.Stop()
	c.renewals.Close()
	c.background.Wait()
	c.timeouts.stop()
	return errors.Join(append(errs, c.driver.Close())...)
}

// maxClosing bounds the leases that Close gives back at a time.
const maxClosing = 256

// releaseAll gives back the leases that are still held, many at a time: a store that hangs
// costs closeTimeout for each.
func (c *Client) releaseAll() []error {
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	slots := make(chan struct{}, maxClosing)
	for _, l := range c.allOpen() {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			for l.Holds() > 1 {
				l.Release(context.Background()) // a hold fewer
			}
			if err := l.Release(context.Background()); err != nil && !errors.Is(err, ErrLost) {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	all.Wait()
	return errs
}

// allOpen returns the leases that have not been given back yet. Of a client that is closed
// none is added, and none is handed over.
func (c *Client) allOpen() []*Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	var leases []*Lease
	for g := c.open; g != nil; g = g.next {
		g.mu.Lock()
		leases = append(leases, g.present)
		g.mu.Unlock()
	}
	return leases
}
