// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// acquirer is TryAcquire or Acquire of a driver.
type acquirer = func(context.Context, *driver.Request) (driver.Grant, error)

// call is an Acquire that waits in a goroutine of its own.
type call struct {
	e      *env
	name   string
	cancel context.CancelFunc
	done   chan struct{} // closed when it has returned

	// Set before done is closed.
	grant driver.Grant
	err   error
	at    driver.Instant // when it returned
}

// wait starts an Acquire and returns when it is in the queue, or has returned. A
// pause is enough for that unless the machine is busy, and most stores can tell.
func (e *env) wait(d driver.Driver, req *driver.Request) *call {
	before := e.queued(d, req.Name)
	c := e.startWait(d, req)
	e.pause()
	e.joined(d, req.Name, before, c.done, e.h.TTL/2)
	return c
}

// joined waits until more than before are in the queue, or done is closed,
// for limit at least.
func (e *env) joined(d driver.Driver, name string, before int, done <-chan struct{}, limit time.Duration) {
	for end := e.deadline(limit); before >= 0 && !closed(done, 0) && !end.over(); e.pause() {
		if e.queued(d, name) > before {
			return
		}
	}
}

// queued returns how many wait for the name, or -1 if the store does not list them.
func (e *env) queued(d driver.Driver, name string) int {
	i, ok := d.(driver.Inspector)
	if !ok || !d.Guarantees().FIFO {
		return -1
	}
	ctx, cancel := context.WithTimeout(e.ctx, e.limit(e.h.TTL/2))
	defer cancel()
	info, err := i.Inspect(ctx, name)
	if err != nil {
		return -1
	}
	return len(info.Waiters)
}

// startWait starts an Acquire.
func (e *env) startWait(d driver.Driver, req *driver.Request) *call {
	ctx, cancel := context.WithCancel(e.ctx)
	c := &call{e: e, name: req.Name, cancel: cancel, done: make(chan struct{})}
	e.calls.Go(func() {
		defer close(c.done)
		c.grant, c.err = d.(driver.Queuer).Acquire(ctx, req)
		c.at = driver.Now()
	})
	return c
}

// waits checks that the call has not returned.
func (c *call) waits() {
	c.e.Helper()
	c.waitsFor(c.name)
}

// waitsFor is waits where one of several leases, that with a token, has to end first.
func (c *call) waitsFor(tokenOrName any) {
	c.e.Helper()
	select {
	case <-c.done:
		c.e.inTime(tokenOrName, c.err)
		c.e.Fatalf("Acquire returned %s, %v; want it to wait", show(c.grant), c.err)
	default:
	}
}

// returned waits until the call has returned, at most for d.
func (c *call) returned(d time.Duration) {
	c.e.Helper()
	if began := driver.Now(); !c.e.closed(c.done, d) {
		c.e.Fatalf("Acquire still waits after %v", driver.Now().Sub(began))
	}
}

// granted returns the grant, which must come within d.
func (c *call) granted(d time.Duration) driver.Grant {
	c.e.Helper()
	c.returned(d)
	if c.err != nil || c.grant == nil {
		c.e.Fatalf("Acquire = %s, %v; want a grant", show(c.grant), c.err)
	}
	return c.grant
}

// cancelled cancels the call and checks that it returns the context's error. A
// grant that comes with it is released, as package pawl would.
func (c *call) cancelled() {
	c.e.Helper()
	c.cancel()
	c.returned(c.e.h.Slack)
	if !errors.Is(c.err, context.Canceled) {
		c.e.Fatalf("Acquire = %s, %v after its context was cancelled; want the context's error", show(c.grant), c.err)
	}
	if c.grant != nil {
		c.grant.Release(c.e.ctx)
	}
}

// closed reports whether c is closed before d has passed. A channel that is
// closed already is, even if d is 0.
func closed(c <-chan struct{}, d time.Duration) bool {
	select {
	case <-c:
		return true
	default:
	}
	select {
	case <-c:
		return true
	case <-time.After(d):
		return false
	}
}
