// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/line"
	"github.com/pawl-go/pawl/internal/trust"
)

// State is where a lease is in its life. See the diagram in the package's
// documentation.
type State int

const (
	StateHeld     = State(trust.Held)     // confirmed by the store
	StateSuspect  = State(trust.Suspect)  // still held until the deadline, but a renewal has failed or is overdue
	StateLost     = State(trust.Lost)     // ended, not released by its holder
	StateReleased = State(trust.Released) // given back
)

func (s State) String() string {
	return [...]string{"held", "suspect", "lost", "released"}[s]
}

// Lease is the right to act on a name until Done is closed. Its methods are
// safe for concurrent use. The zero Lease has ended.
type Lease struct {
	grant *grant
	token Token
	began driver.Instant // when this client learned of the grant
	asked asked
	// resting: nobody has the lease; it keeps the grant until MinHold is over.
	resting bool
	// idle: the same, until a call of this client reuses the grant. reused: it was so before.
	idle, reused bool
	returned     chan struct{} // of returnLater; guarded by Client.mu

	// Guarded by grant.mu.
	trust    trust.Lease
	done     chan struct{} // nil if nobody has asked for it
	contexts map[*leaseContext]struct{}
	given    bool // Release has ended, with relErr
	relErr   error
	back     chan struct{} // closed when given is set; nil if nobody waits for that
}

// zero reports whether l is no lease that a call has returned. It is one that has ended.
func (l *Lease) zero() bool { return l == nil || l.grant == nil }

var (
	errZero = &Error{Err: fmt.Errorf("%w: it is none that Acquire has returned", ErrReleased)}
	over    = closedChannel()
)

func closedChannel() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// asked is what an Event says of the call that asked for a lease.
type asked struct {
	ctx   context.Context // nil if no observer wants it
	kind  line.Kind
	waits bool // the observer was told so

	behind *obstacle // nil if nobody traces
}

// String returns what the lease is in words, for logs: its name, token and state.
func (l *Lease) String() string {
	if l.zero() {
		return "no lease"
	}
	return fmt.Sprintf("lease of %q, token %d, %v", driver.Shorten(l.Name()), l.token, l.State())
}

// Name returns the name that the lease is for.
func (l *Lease) Name() string {
	if l.zero() {
		return ""
	}
	return l.grant.name
}

// ID returns the lease's unique id, as Inspect and the command show it. When a lease
// goes from one goroutine of a client to the next without a request to the store, its
// id stays and its token changes.
func (l *Lease) ID() string {
	if l.zero() {
		return ""
	}
	return l.grant.id
}

// Token returns the fencing token.
func (l *Lease) Token() Token {
	if l.zero() {
		return 0
	}
	return l.token
}

// Done returns a channel that is closed when the lease has ended.
func (l *Lease) Done() <-chan struct{} {
	if l.zero() {
		return over
	}
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
func (l *Lease) State() State {
	if l.zero() {
		return StateReleased
	}
	l.check()
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	return State(l.trust.State())
}

// Err returns nil while the lease is held, and then why it ended: ErrReleased,
// or ErrLost with a *LostError. It looks at the clock: a process that was
// paused past the deadline learns of the loss from the first call.
func (l *Lease) Err() error {
	if l.zero() {
		return errZero
	}
	l.check()
	if cause := l.ended(); cause != nil {
		return &Error{"", l.grant.name, cause}
	}
	return nil
}

// Deadline returns the time at which the lease ends unless it is renewed before, or the
// zero time if it does not end by itself. It moves with every renewal. A lease that its
// last holder has just handed over may begin with less than its TTL. The client renews
// it very soon; Extend renews it now.
func (l *Lease) Deadline() time.Time {
	if l.zero() {
		return time.Time{}
	}
	l.grant.mu.Lock()
	deadline := l.trust.Deadline()
	l.grant.mu.Unlock()
	if deadline == trust.Never {
		return time.Time{}
	}
	return time.Now().Add(deadline.Sub(driver.Now()))
}

// Holds returns how many holds the lease has: more than one only with Reentrant, and 0
// once the lease has been given back.
func (l *Lease) Holds() int {
	if l.zero() {
		return 0
	}
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	return l.trust.Holds()
}

// Files returns the open files that a child process must inherit so that the lease
// lives as long as the child does, or nil if the store has no such files or the lease has
// ended. From then on Release closes only this process's copies of them.
func (l *Lease) Files() []*os.File {
	if l.zero() {
		return nil
	}
	if !l.grant.remote.Inherits() || !l.keep() {
		return nil
	}
	return l.grant.remote.Files()
}

// Extend renews the lease now, for ttl from now, and makes ttl the TTL of later
// renewals. Nothing else extends a lease with NoRenew. MaxHold still bounds the lease.
// The attempt takes at most a third of the TTL before the call, so that a store that
// hangs does not stop the renewals.
//
// The error is ErrLost or ErrReleased if the lease has ended, and ctx.Err() if ctx ends
// first. After any other error the lease is held as before. errors.ErrUnsupported means
// that the store cannot make the TTL of this lease longer.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	if l.zero() {
		return errZero
	}
	ctx = present(ctx)
	err := checkTTL(ttl)
	if err == nil {
		l.check()
		err = l.extend(ctx, ttl)
	}
	if err != nil {
		return l.grant.client.opError(ctx, "extend", l.grant.name, err)
	}
	return nil
}

func (l *Lease) extend(ctx context.Context, ttl time.Duration) error {
	if !l.grant.client.guarantees.Expiry {
		return l.stretch(ttl)
	}
	for {
		req, free, err := l.begin(ttl)
		if err == nil {
			ctx, cancel := l.grant.client.untilClose(ctx)
			defer cancel()
			return l.ask(ctx, req)
		} else if err != trust.ErrBusy {
			return err
		}
		select {
		case <-free:
		case <-l.Done():
		case <-ctx.Done():
			l.giveUp()
			return ctx.Err()
		}
	}
}

// Progress reports that the work goes on, see ProgressEvery, and returns what Err does. It
// asks nobody, and so may be called often.
func (l *Lease) Progress() error {
	if l.zero() {
		return errZero
	}
	l.check()
	l.grant.mu.Lock()
	l.trust.Report(driver.Now())
	l.grant.mu.Unlock()
	return l.Err()
}

// Release gives the lease back and returns when the store knows. It works even if ctx
// has ended: it uses only the values of ctx, and takes at most five seconds.
//
// The error is ErrLost if the lease had been lost before; whoever holds the name by
// then keeps it. If the store does not answer, Release returns that error, and the
// client repeats the request in the background. With MinHold and KeepIdle it may give the
// lease back later, and then returns at once. A second call waits for the first and returns
// the same.
//
// Every lease has to be released, a lost one too: until then, or until Close, the
// client keeps what it needs for the release. A lease with several holds, see
// Reentrant, is given back by the last of as many calls.
func (l *Lease) Release(ctx context.Context) error {
	if l.zero() {
		return errZero
	}
	ctx = present(ctx)
	switch giving, back := l.letGo(); giving {
	case trust.Fewer:
		l.check()
		if err := l.ended(); err != nil {
			return &Error{"release", l.grant.name, err}
		}
		return nil
	case trust.Again:
		// Not a mutex: a call that waits here waits for the store, and a test in a
		// bubble of fake time must be able to see that.
		<-back
		return l.relErr
	}
	err := errPanic
	defer func() { l.gone(err) }() // also if a store panics: Close waits for this
	if l.rests() {
		l.tell()
		err = nil
		return nil
	}
	if l.handOver() || l.keepIdle() {
		err = nil
		return nil
	}
	defer l.grant.client.forget(l.grant)
	err = l.release(ctx)
	return err
}

var errPanic = errors.New("the call that released it has panicked")

func (l *Lease) release(ctx context.Context) error {
	c := l.grant.client
	l.check()
	left := l.leaves()
	// The lease ends here, before the request to the store. From now on no late renewal
	// can revive it.
	ended := l.end()
	if !ended {
		// The lease was lost, but the store may still have it: free the name for the
		// others.
		_ = l.grant.remote.Release(ctx)
		return &Error{"release", l.grant.name, l.ended()}
	}
	var err error
	if left {
		err = l.prolong(c.store.Bounded(ctx))
	} else {
		err = l.grant.remote.Release(ctx)
	}
	if err != nil {
		err = &Error{"release", l.grant.name, err}
	}
	c.leave(l)
	if !l.idle { // else it was released before
		c.observer.released(l, err)
	}
	return err
}
