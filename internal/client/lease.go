// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"errors"
	"os"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/trust"
)

// Lease is one lease of the client.
type Lease struct {
	grant *grant
	token driver.Token
	began driver.Instant // when this client learned of the grant
	asked Asked
	// resting: parked. The lease has no holder, and keeps the grant until MinHold is over.
	resting bool
	// idle: parked until a call of this client reuses the grant. reused: made from an idle lease.
	idle, reused bool
	returned     chan struct{} // of returnLater; guarded by Client.mu

	// Guarded by grant.mu.
	trust  trust.Lease
	done   chan struct{} // nil before the first call of Done
	bound  map[*leaseContext]struct{}
	given  bool // Release has ended, with relErr
	relErr error
	back   chan struct{} // closed when given is set; nil if nobody waits for that
}

// Zero reports whether l is the zero Lease, whose other methods panic.
func (l *Lease) Zero() bool { return l.grant == nil }

// Ended returns a lease that nobody was granted. It has ended because of a cause.
func Ended(cause error, config Config) *Lease {
	c := &Client{ctx: context.Background(), expires: true, config: config}
	return &Lease{grant: &grant{client: c}, trust: trust.Over(cause), given: true, relErr: config.Wrap("", "", cause)}
}

// Client returns the client that has the lease.
func (l *Lease) Client() *Client { return l.grant.client }

// Name returns the name that the lease is for.
func (l *Lease) Name() string { return l.grant.name }

// ID returns the id of the grant.
func (l *Lease) ID() string { return l.grant.id }

// Token returns the fencing token.
func (l *Lease) Token() driver.Token { return l.token }

// Began returns when this client learned of the grant.
func (l *Lease) Began() driver.Instant { return l.began }

// Asked returns what the call asked for.
func (l *Lease) Asked() Asked { return l.asked }

// Reused reports whether the client had kept the grant, so that the call needed no request.
func (l *Lease) Reused() bool { return l.reused }

// Done returns a channel that is closed when the lease has ended.
func (l *Lease) Done() <-chan struct{} {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.trust.Ended() != nil {
			close(l.done)
		}
	}
	return l.done
}

// State returns the state of the lease. It looks at the clock.
func (l *Lease) State() trust.State {
	l.check()
	return locked(l, (*trust.Lease).State)
}

// locked calls a method of package trust under grant.mu.
func locked[T any](l *Lease, method func(*trust.Lease) T) T {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	return method(&l.trust)
}

// Ended returns why the lease has ended, or nil. It looks at the clock.
func (l *Lease) Ended() error {
	l.check()
	return l.Cause()
}

// Err is Ended for users.
func (l *Lease) Err() error { return l.wrap("", l.Ended()) }

// Cause returns why the lease has ended, or nil, without a look at the clock.
func (l *Lease) Cause() error { return locked(l, (*trust.Lease).Ended) }

// Deadline returns when the lease ends unless it is renewed before, or trust.Never.
func (l *Lease) Deadline() driver.Instant { return locked(l, (*trust.Lease).Deadline) }

// Holds returns how many holds the lease has.
func (l *Lease) Holds() int { return locked(l, (*trust.Lease).Holds) }

// Files returns the open files that a child process must inherit.
func (l *Lease) Files() []*os.File {
	if l.Cause() != nil || !locked(l, (*trust.Lease).Bind) {
		return nil
	}
	return l.grant.remote.Files()
}

// Progress notes that the work goes on.
func (l *Lease) Progress() {
	l.check()
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	l.trust.Report(driver.Now())
}

// Guard binds a transaction to the lease.
func (l *Lease) Guard(ctx context.Context, tx any) error {
	err := l.Ended()
	if l.grant.remote == nil { // it is empty
		return err
	}
	if err == nil && !locked(l, (*trust.Lease).Bind) {
		err = cmp.Or(l.Cause(), driver.ErrReleased)
	}
	return l.grant.remote.Guard(ctx, tx, err)
}

// Release gives the lease back, hands it over, or parks it. Its errors are for users. A second call waits for the first
// and returns the same.
func (l *Lease) Release(ctx context.Context) error {
	switch giving, back := l.letGo(); giving {
	case trust.Fewer:
		l.check()
		return l.wrap("release", l.Cause())
	case trust.Again:
		// A channel, not a mutex: the call waits for the store, and only a wait on a
		// channel lets the fake time of a test go on.
		<-back
		return l.relErr
	}
	err := errPanic
	defer func() { l.gone(err) }() // deferred, in case a store panics: Close waits for this
	if l.park(false) || l.handOver() || l.park(true) {
		err = nil
		return nil
	}
	defer l.grant.client.forget(l.grant)
	err = l.release(ctx)
	return err
}

var errPanic = errors.New("another call of Release has panicked: the lease ends with its TTL")

func (l *Lease) release(ctx context.Context) error {
	c := l.grant.client
	l.check()
	early := l.early()
	// The lease ends before the request to the store, so that no late renewal can revive
	// it.
	ended := l.end()
	if !ended {
		// The lease was lost, but the store may still have it: free the name for
		// others.
		_ = l.grant.remote.Release(ctx)
		return l.wrap("release", l.Cause())
	}
	var err error
	if early {
		err = l.prolong(c.participant.Bounded(ctx))
	} else {
		err = l.grant.remote.Release(ctx)
	}
	err = l.wrap("release", err)
	c.leave(l)
	if !l.idle { // the release of an idle lease was reported before
		c.observer.Released(l, err, false)
	}
	return err
}

// wrap makes an error for users.
func (l *Lease) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return l.grant.client.config.Wrap(op, l.grant.name, err)
}

// letGo takes one hold back. If another call is releasing the lease, letGo also returns a
// channel that is closed when that call has ended.
func (l *Lease) letGo() (trust.Giving, <-chan struct{}) {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	giving := l.trust.Release()
	if giving == trust.Again && l.back == nil {
		l.back = make(chan struct{})
		if l.given {
			close(l.back)
		}
	}
	return giving, l.back
}

// gone records that the release has ended with the result err.
func (l *Lease) gone(err error) {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	l.given, l.relErr = true, err
	if l.back != nil {
		close(l.back)
	}
}
