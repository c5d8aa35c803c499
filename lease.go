// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/client"
	"github.com/pawl-go/pawl/internal/participant"
	"github.com/pawl-go/pawl/internal/trust"
)

// Lease is the right to act on a name until Done is closed. Its methods are safe for
// concurrent use. The zero Lease has ended.
type Lease client.Lease

// inner returns what package client knows of the lease.
func (l *Lease) inner() *client.Lease {
	if l == nil || (*client.Lease)(l).Zero() {
		return empty
	}
	return (*client.Lease)(l)
}

// empty stands for the zero Lease.
var (
	empty    = client.Ended(fmt.Errorf("%w: this Lease is empty: use one that Acquire or TryAcquire has returned", ErrReleased), client.Config{Wrap: wrap})
	errEmpty = empty.Err()
)

// State is where a lease is in its life. The package documentation has a diagram.
type State int

const (
	StateHeld     State = State(trust.Held)     // the store has confirmed the lease
	StateSuspect  State = State(trust.Suspect)  // held until the deadline, but a renewal has failed or is overdue
	StateLost     State = State(trust.Lost)     // the lease has ended without a Release
	StateReleased State = State(trust.Released) // the holder has given the lease back
)

// String returns held, suspect, lost or released.
func (s State) String() string {
	return [...]string{"held", "suspect", "lost", "released"}[s]
}

// String describes the lease for logs: its name, token and state.
func (l *Lease) String() string {
	if l.inner() == empty {
		return "no lease"
	}
	return fmt.Sprintf("lease of %q, token %d, %v", driver.Shorten(l.Name()), l.Token(), l.State())
}

// Name returns the name that the lease is for.
func (l *Lease) Name() string { return l.inner().Name() }

// ID returns the id of the lease in the store, as Inspect shows it. The client may hand a
// lease to its next waiter without asking the store: the id stays then, and the token
// changes.
func (l *Lease) ID() string { return l.inner().ID() }

// Token returns the fencing token.
func (l *Lease) Token() Token { return l.inner().Token() }

// Done returns a channel that is closed when the lease has ended.
func (l *Lease) Done() <-chan struct{} { return l.inner().Done() }

// State returns the state of the lease. It looks at the clock.
func (l *Lease) State() State { return State(l.inner().State()) }

// Err returns nil while the lease is held. After that it returns why the lease has ended:
// ErrReleased, or ErrLost with a *LostError. Err looks at the clock: after a pause of the
// process the first call already reports that the lease is lost.
func (l *Lease) Err() error { return l.inner().Err() }

// Deadline returns when the lease ends unless a renewal succeeds, or the zero time if the
// lease does not end by itself. Every renewal moves it. A lease that the client's previous
// holder has handed over may begin with less than its TTL; the client renews it soon, and
// Extend renews it at once.
func (l *Lease) Deadline() time.Time {
	deadline := l.inner().Deadline()
	if deadline == trust.Never {
		return time.Time{}
	}
	return time.Now().Add(deadline.Sub(driver.Now()))
}

// Holds returns how many calls of Release the lease still needs: more than one only with
// Reentrant, and 0 once it has been given back.
func (l *Lease) Holds() int { return l.inner().Holds() }

// Files returns the open files that keep the lease alive, for a child process to inherit.
// It returns nil if the lease has ended, or the store has no such files. After Files,
// Release closes only the copies of this process: the lease ends when the child has closed
// its own.
func (l *Lease) Files() []*os.File { return l.inner().Files() }

// Extend renews the lease now, for ttl from now, and makes ttl the TTL of later
// renewals. It is the only way to prolong a lease with NoRenew. MaxHold still ends the lease.
// Extend takes at most a third of the present TTL, so that a store that hangs does not stop
// the renewals.
//
// The error is ErrLost or ErrReleased if the lease has ended, and ctx.Err() if ctx ends
// first. After any other error the lease is held as before; the error is
// errors.ErrUnsupported if the store cannot make the TTL of this lease longer.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	ctx = present(ctx)
	err := checkTTL(ttl)
	if err == nil {
		err = l.inner().Extend(ctx, ttl)
	}
	return l.opError(ctx, "extend", err)
}

// Progress reports that the work goes on, and returns what Err does; see ProgressEvery. It
// asks nobody, so it may be called often.
func (l *Lease) Progress() error {
	l.inner().Progress()
	return l.Err()
}

// Release gives the lease back, and returns when the store has confirmed that. It uses only
// the values of ctx, so it works after the end of ctx, and takes at most five seconds. With
// MinHold and KeepIdle the client may give the lease back later, and Release returns at once.
//
// The error is ErrLost if the lease was lost before. If the store does not answer, Release
// returns that error, and the client repeats the request in the background. A second call
// waits for the first and returns the same.
//
// Release every lease, also a lost one: until then, or until Close, the client keeps what it
// needs for the release. A lease with several holds, see Reentrant, is given back by the
// last of as many calls.
func (l *Lease) Release(ctx context.Context) error {
	return l.inner().Release(present(ctx))
}

// Guard makes a database transaction fail unless the lease is held: what tx writes is
// committed only then, and before another holder is granted the name. A holder that was
// paused or cut off therefore cannot write late, and the data need no fencing token. If the
// time of the lease ends before the commit, the name stays taken until tx has ended.
//
// Call Guard once in each transaction, before the writes or after them, and before any
// savepoint. The package of the store says what tx may be, and may have a Guard that lets the
// compiler check its type. After an error tx cannot be committed: roll it back. End tx before
// Release; if not, the name becomes free when tx ends.
//
// Within Client.Do, use the context that Do gives its function, also for the statements of
// tx: they fail when the lease ends. With another context tx may go on and commit, as safely.
// Even then Do returns ErrLost: the Commit of tx says whether it was committed.
//
// The error is ErrLost or ErrReleased if the lease has ended, and errors.ErrUnsupported if
// the store is no database, or tx is of another database or type.
func (l *Lease) Guard(ctx context.Context, tx any) error {
	ctx = present(ctx)
	return l.opError(ctx, "guard", l.inner().Guard(ctx, tx))
}

// Downgrade ends an exclusive lease and returns a shared one on the same name, with an id and
// a greater token of its own. The store does both in one step, so nobody writes between the
// writer and the reader. Waiting readers are then granted the name. The shared lease has the
// options of the exclusive one, and what is left of its MinHold and MaxHold.
//
// The exclusive lease ends as released before the store is asked: its contexts end, and a
// further Release returns at once. Like Release, Downgrade then uses only the values of ctx,
// and takes at most five seconds.
//
// The error is ErrLost or ErrReleased if the lease has ended, ctx.Err() if ctx has ended, and
// errors.ErrUnsupported if the lease is not exclusive or the store cannot do this in one step.
// A lease with several holds is refused and stays as it is. After any further error the
// caller holds nothing: the client gives back both leases.
func (l *Lease) Downgrade(ctx context.Context) (*Lease, error) {
	ctx = present(ctx)
	shared, err := l.inner().Downgrade(ctx)
	return (*Lease)(shared), l.opError(ctx, "downgrade", err)
}

func (l *Lease) opError(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{op, l.Name(), l.inner().Client().Reason(ctx, err)}
}

// Context returns a copy of parent that also ends with the lease, and a function that ends it
// earlier and must be called. When the lease ends, context.Cause says why: ErrLost or
// ErrReleased.
//
// The Err method of the context looks at the clock: after a pause of the process the first
// call already reports that the lease is lost.
func (l *Lease) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return l.inner().Context(present(parent))
}

// LeaseFrom returns the innermost lease whose Context method has made ctx or an ancestor of
// ctx, such as the context that Do and Elect give their functions. The lease may have ended:
// see Lease.Err. ok is false if there is none.
func LeaseFrom(ctx context.Context) (lease *Lease, ok bool) {
	l := client.LeaseFrom(present(ctx))
	return (*Lease)(l), l != nil
}

// LeasesFrom returns all leases that LeaseFrom may find in ctx and that have not ended, the
// innermost first.
func LeasesFrom(ctx context.Context) (leases []*Lease) {
	for _, l := range client.LeasesFrom(present(ctx)) {
		leases = append(leases, (*Lease)(l))
	}
	return leases
}

// present replaces a nil context by one without an end.
func present(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

func checkTTL(ttl time.Duration) error {
	if ttl < driver.MinTTL {
		return fmt.Errorf("TTL %v is too short: use at least %v; 10s to 60s suits most work", ttl, driver.MinTTL)
	}
	return nil
}

// checkMinHold returns an error if d, a MinHold, is longer than the store's MaxTTL: Close could not
// leave such a lease to the store.
func (c *Client) checkMinHold(ctx context.Context, d time.Duration) error {
	if d <= time.Duration(c.longest.Load()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, participant.RequestTimeout)
	defer cancel()
	info, err := c.core.Participant().Describe(ctx)
	if err != nil || info.MaxTTL == 0 {
		return nil // the request for the lease will say what is wrong, or MaxTTL is not set yet
	}
	c.longest.Store(int64(info.MaxTTL))
	if d > info.MaxTTL {
		return fmt.Errorf("MinHold %v is longer than the MaxTTL of the store: use %v at most, or have the store's MaxTTL raised", d, info.MaxTTL)
	}
	return nil
}
