// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

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
		c.participant.Stop()
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
	all := closing{errs: make(map[*Lease]error)}
	all.giveBack(c.open())
	<-calls
	all.giveBack(c.open()) // a call may have had its answer just before Stop, and return the lease only now
	errs := all.wait()
	c.sched.Stop()
	c.renewals.Close()
	c.background.Wait()
	if c.participant != nil {
		if err := c.participant.Close(); err != nil {
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
	wg sync.WaitGroup

	mu   sync.Mutex
	errs map[*Lease]error
}

// giveBack begins to give back all leases at once: if a part of the store does not answer, the other
// leases must not wait for it. A lease may be among the leases twice.
func (cl *closing) giveBack(leases []*Lease) {
	for _, l := range leases {
		cl.wg.Go(func() { cl.release(l) })
	}
}

func (cl *closing) release(l *Lease) {
	for l.Holds() > 1 {
		l.Release(context.Background()) // takes one hold back
	}
	if err := l.Release(context.Background()); err != nil && !errors.Is(err, driver.ErrLost) {
		cl.mu.Lock()
		defer cl.mu.Unlock()
		cl.errs[l] = err
	}
}

func (cl *closing) wait() []error {
	cl.wg.Wait()
	errs := slices.Collect(maps.Values(cl.errs))
	if more := len(errs) - maxCloseErrors; more > 0 {
		return append(errs[:maxCloseErrors], fmt.Errorf("%d more leases could not be released: they end with their TTL", more))
	}
	return errs
}

// open returns the leases that have not been given back. A closed client hands none over,
// and only calls under way add some.
func (c *Client) open() (leases []*Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for g := range c.grants {
		g.mu.Lock()
		leases = append(leases, g.present)
		g.mu.Unlock()
	}
	return leases
}

// forget notes that g has been given back.
func (c *Client) forget(g *grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.grants, g)
}
