// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Token is a fencing token: greater than that of every earlier lease on the
// same name, or 0 if the store has none. Send it along with every write, and
// have the resource refuse a token smaller than the largest it has seen.
type Token uint64

// State is where a lease is in its life. See the diagram in the package's
// documentation.
type State int

const (
	Held     State = iota // ours, and confirmed
	Suspect               // ours until the deadline, but a renewal has failed or is overdue
	Lost                  // ended without us
	Released              // given back
)

func (s State) String() string {
	return [...]string{"held", "suspect", "lost", "released"}[s]
}

// Lease is the right to act on a name until Done is closed. Its methods are
// safe for concurrent use.
type Lease struct {
	client *Client
	grant  driver.Grant
	name   string
	id     string
	why    string
	token  Token
	began  driver.Instant // when this client learnt of the grant
	limit  driver.Instant // MaxHold's end, or never
	fixed  bool           // NoRenew
	kind   kind           // as it was acquired

	prev, next *Lease // in Client.open, guarded by Client.mu

	mu        sync.Mutex    // guards the fields below
	tenure    *tenure       // nil if the grant was not passed on, nor tried to
	done      chan struct{} // nil if nobody has asked for it
	state     State
	cause     error // why it ended
	ttl       time.Duration
	since     driver.Instant // start of the TTL as the store certainly sees it
	renewAt   driver.Instant // when to renew, or to try again
	suspectAt driver.Instant // when a missing confirmation is overdue
	renewErr  error          // of the last renewal, if it failed
	asking    bool           // a request that renews is under way
	free      chan struct{}  // closed when asking ends; nil if nobody waits for that
	contexts  map[*leaseContext]struct{}
	lowering  bool // a Downgrade has begun
	lowered   bool // and was confirmed: it is shared
	more      int  // holds by Reentrant, beyond the first

	releasing bool // Release has been called
	given     bool // and has ended, with relErr
	relErr    error
	back      chan struct{} // closed when given is set; nil if nobody waits for that

	index int            // in scheduler.leases, guarded by scheduler.mu; -1: not there
	due   driver.Instant // guarded by scheduler.mu
}

// Name returns the name that the lease is for.
func (l *Lease) Name() string { return l.name }

// ID returns the lease's unique id, as Inspect and the command show it. A lease that
// goes from one goroutine of a client to the next without a word to the store has
// the same id all the while, and another token each time.
func (l *Lease) ID() string { return l.id }

// Token returns the fencing token.
func (l *Lease) Token() Token { return l.token }

// Done returns a channel that is closed when the lease has ended.
func (l *Lease) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.cause != nil {
			close(l.done)
		}
	}
	return l.done
}

// State returns the state of the lease, after a look at the clock.
func (l *Lease) State() State {
	l.check()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Err returns nil while the lease is held, and then why it ended: ErrReleased,
// or ErrLost with a *LostError. It looks at the clock: a process that was
// paused past the deadline learns of the loss from the first call.
func (l *Lease) Err() error {
	l.check()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil {
		return nil
	}
	return &Error{"hold", l.name, l.cause}
}

// Deadline returns the time at which the lease ends unless it is renewed
// before, or the zero time if it does not end by itself. It moves with every
// renewal. A lease that its last holder has just handed over may begin with less
// than its TTL, and is renewed very soon; Extend does that now.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	deadline := l.deadline()
	l.mu.Unlock()
	if deadline == never {
		return time.Time{}
	}
	return time.Now().Add(deadline.Sub(driver.Now()))
}

// Files returns the open files that a child process must inherit so that the
// lease lives as long as the child does, or nil if the store has no such
// thing. From then on Release closes only this process's copies of them.
func (l *Lease) Files() []*os.File {
	if g, ok := l.grant.(driver.Inheriter); ok {
		return g.Files()
	}
	return nil
}

// Release gives the lease back and returns when the store knows. It works
// although ctx has been cancelled, keeping only its values, for up to five
// seconds. It returns an error that is ErrLost if the lease had been lost
// before, and does no harm to whoever holds the name now. If the store cannot
// be told, it returns that error, and the client goes on telling it in the
// background. A second call waits for the first and returns what that returned.
// Every lease has to be released, a lost one too: until then, or Close, the
// client keeps what it needs for that. A lease with several holds, see
// Reentrant, is given back by the last of as many calls.
func (l *Lease) Release(ctx context.Context) error {
	ctx = present(ctx)
	// Not a mutex: who waits here waits for the store, and a test in a bubble of
	// fake time must be able to tell.
	l.mu.Lock()
	if l.more > 0 {
		l.more--
		l.mu.Unlock()
		l.check()
		if err := l.ended(); err != nil {
			return &Error{"release", l.name, err}
		}
		return nil
	}
	if l.releasing {
		if l.back == nil {
			l.back = make(chan struct{})
			if l.given {
				close(l.back)
			}
		}
		back := l.back
		l.mu.Unlock()
		<-back
		return l.relErr
	}
	l.releasing = true
	l.mu.Unlock()
	err := errPanic
	defer func() { // also if a driver panics: Close waits for this
		l.mu.Lock()
		defer l.mu.Unlock()
		l.given, l.relErr = true, err
		if l.back != nil {
			close(l.back)
		}
	}()
	if l.inherit() {
		err = nil
		return nil
	}
	defer l.client.forget(l)
	err = l.release(ctx)
	return err
}

var errPanic = errors.New("the call that released it has panicked")

func (l *Lease) release(ctx context.Context) error {
	l.check()
	// The lease ends here before the store hears of it: from now on no late
	// renewal can revive it.
	ended := l.end(Released, ErrReleased)
	if l.client.guarantees.CrossHost {
		ctx = lent(ctx, l.client.timeouts.next())
	} else { // a store on this machine keeps nobody waiting
		ctx = context.WithoutCancel(ctx)
	}
	if !ended {
		// It was lost. The store may not think so yet: free it for the others.
		_ = l.client.giveBack(ctx, l.grant)
		return &Error{"release", l.name, l.ended()}
	}
	err := l.client.handOver(ctx, l)
	if err != nil {
		err = &Error{"release", l.name, err}
	}
	l.client.observer.released(l, err)
	return err
}

// ended returns why the lease ended, or nil, without a look at the clock.
func (l *Lease) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// end moves the lease to a final state, once, and tells everybody but the
// store. It reports whether it was this call that ended the lease.
func (l *Lease) end(state State, cause error) bool {
	l.mu.Lock()
	if l.cause != nil {
		l.mu.Unlock()
		return false
	}
	contexts := l.finish(state, cause)
	l.mu.Unlock()
	l.client.sched.remove(l)
	l.tell(contexts)
	return true
}

// finish notes the end of a lease that has not ended, and returns the contexts that end
// with it. l.mu is held.
func (l *Lease) finish(state State, cause error) map[*leaseContext]struct{} {
	l.state, l.cause = state, cause
	if l.done != nil {
		close(l.done)
	}
	contexts := l.contexts
	l.contexts = nil
	return contexts
}

// tell ends contexts, without a lock: they ask the lease.
func (l *Lease) tell(contexts map[*leaseContext]struct{}) {
	for c := range contexts {
		c.cancel(&Error{"hold", l.name, l.ended()})
	}
}

// lose ends the lease without us.
func (l *Lease) lose(cause *LostError) {
	if !l.end(Lost, cause) {
		return
	}
	l.client.leave(l)
	l.client.observer.lost(l, cause)
}

// check loses the lease if its deadline has passed.
func (l *Lease) check() {
	l.mu.Lock()
	deadline := l.deadline()
	late := l.cause == nil && driver.Now() >= deadline
	limit, err := deadline == l.limit, l.renewErr
	l.mu.Unlock()
	switch {
	case late && limit:
		l.lose(&LostError{Reason: driver.Limit})
	case late:
		l.lose(&LostError{Reason: driver.Expired, Err: err})
	}
}

// deadline returns the end of the trust window, or never. l.mu is held.
func (l *Lease) deadline() driver.Instant {
	if !l.client.guarantees.Expiry && !l.fixed {
		return l.limit
	}
	return min(l.limit, l.since.Add(l.ttl-driver.Drift(l.ttl)))
}
