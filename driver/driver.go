// SPDX-License-Identifier: Apache-2.0

// Package driver is the contract between package pawl and one store of
// leases. Users do not need it; authors of stores do.
//
// A driver is small on purpose. It makes one attempt, renews, releases, and,
// if the store has a queue of its own, waits in it. Everything that is common
// to all stores lives once, in package pawl: the trust window, the renewal
// schedule, the line of local waiters, retries, clean-up after an attempt
// with an unknown outcome, error wrapping, logging and observation.
//
// The contract is frozen: six stores as different as memory and a consensus
// cluster fit it. Methods are neither added to its interfaces nor changed. What a
// store can do beyond it becomes an interface of its own, which a Driver or a
// Grant may implement.
//
// Package drivertest holds the suite that every driver must pass.
package driver

import (
	"context"
	"os"
	"time"
)

// Driver is one participant in one store: two Drivers opened on the same
// store exclude each other. All methods are safe for concurrent use.
//
// For one name, grants must be linearizable across all participants: between
// the moment a grant begins in the store and the moment the store ends it
// (by Release, by the passing of its TTL, by Break, or, where
// Guarantees.Expiry is false, by the end of the process), no other grant on
// the name begins.
//
// Kinds: a lease is exclusive, shared, or one of n slots. Leases on one name are
// held together only if all are shared, or all are slots with the same n and
// there are at most n of them. A waiter is granted the name as soon as it may be
// held together with the leases that are held, and nobody who came before it
// still waits: so a steady stream of readers does not starve a writer, and
// readers that follow each other in the queue are granted together.
// TryAcquire does not overtake waiters either, where Guarantees.FIFO is true.
// Package pawl never asks for a kind that the Guarantees lack.
//
// A driver does not retry, log, or start timers for a lease; package pawl
// does. It returns the sentinel errors of this package, wrapped with %w and
// together with the cause; it never hides a context error behind one of them.
type Driver interface {
	// TryAcquire asks the store once and does not wait for a holder to let go.
	// It returns
	//
	//   - a Grant;
	//   - a *HeldError (ErrHeld) when somebody else holds the name;
	//   - a *SlotsError when slots of another number are held, even if somebody
	//     waits for the name besides;
	//   - ErrUnavailable only if the store certainly recorded nothing;
	//   - ErrUncertain if the store may have recorded the grant, together
	//     with a Grant whose Release undoes it, or a nil Grant if the store is
	//     known to undo it unasked. The caller treats the name as not held;
	//   - the context's error, under the same rule: with a Grant to release,
	//     if the attempt may have been recorded.
	//
	// Repeating a call with the same Request.Lease must be harmless: it returns
	// the grant anew or ErrHeld, and one Release ends what was granted.
	TryAcquire(ctx context.Context, req *Request) (Grant, error)

	// Guarantees says what the store can promise. It is constant.
	Guarantees() Guarantees

	// Close frees what the driver itself opened, never a connection that its
	// user passed in. Package pawl has released all grants before. Calls after it, and
	// those that wait, return ErrClosed.
	Close() error
}

// Queuer is a Driver whose store has a queue, so that waiters are told
// instead of asking again and again. Package pawl polls, with jitter, where a
// driver is not a Queuer.
type Queuer interface {
	Driver

	// Acquire waits in the store's queue until the name is granted or ctx
	// ends. Once in the queue, it bears that the store does not answer for the TTL of req, from
	// the first question without an answer on, and waits on for as long as the store refuses: it is
	// there. If it has not answered for that long, it returns a *SilentError, with a
	// Grant whose Release gives up its place if that may be there still. Otherwise results are those
	// of TryAcquire, except that ErrHeld is never returned. A *SlotsError is for who
	// comes while the slots are held; who is in the queue by then may wait on. A
	// waiter that gives up must leave the queue, and may thereby let those behind it
	// in; one that is granted the name in the instant in which ctx ends may return
	// the Grant, or put it back and return the context's error, but must not keep it.
	Acquire(ctx context.Context, req *Request) (Grant, error)
}

// Inspector is a Driver that can say who holds what, and end a lease of
// somebody else.
type Inspector interface {
	Driver

	// Inspect describes a name. A name that nobody holds is no error: the Info
	// has no holders.
	Inspect(ctx context.Context, name string) (*Info, error)

	// List describes the names that have a holder or a waiter and begin with
	// prefix, sorted by name.
	List(ctx context.Context, prefix string) ([]*Info, error)

	// Break ends the lease with the given id on name, by compare and delete:
	// if that lease is not the holder, it changes nothing and returns a
	// *HeldError when another lease is, ErrReleased when none is. The victim
	// learns by and why from its LostError. Where only the victim can let go
	// (files), Break asks it and returns when it has, or when ctx ends.
	Break(ctx context.Context, name, lease string, by *Holder, why string) error
}

// Reporter is a Driver that has something to tell besides what becomes of leases.
type Reporter interface {
	Driver

	// OnNews arranges that f, which does not block, is called with all news, those
	// from before included. It is called at most once.
	OnNews(f func(News))
}

// Describer is a Driver that can say how its store is, for people and their tools.
type Describer interface {
	Driver

	// Describe looks, and changes nothing.
	Describe(ctx context.Context) (*StoreInfo, error)
}

// StoreInfo is how a store is.
type StoreInfo struct {
	// MaxTTL is the longest TTL that a lease may have, on which all clients of the store have
	// agreed; 0 if nobody has been granted anything yet, or if the store needs none.
	MaxTTL time.Duration
	// SetBy has set it; nil if that is not known.
	SetBy *Holder
	// Closed: for so long nothing is granted, as leases may have been forgotten that last
	// until then; Why says how that has come, in one clause.
	Closed time.Duration
	Why    string
}

// News is one thing that happened to a store. One of Step, Closed and Silent is set.
type News struct {
	Server string // which one; for people
	// Step: its clock, by which it ends leases, was set forward by so much; back if
	// negative.
	Step time.Duration
	// Closed: for so long it grants nothing, as it may have forgotten leases that
	// last until then.
	Closed time.Duration
	// Silent: for so long it has not answered, and nobody hears what it says. It is told soon, and again
	// while that lasts.
	Silent time.Duration
}

// Grant is a lease as the store sees it. Its methods are safe for concurrent
// use. Only the first effective Release does anything.
type Grant interface {
	// Token is the fencing token: greater than that of every earlier grant on
	// the name, or 0 if the store has none.
	Token() uint64

	// Since is the latest local instant that is certainly not after the moment
	// at which the store began to count the TTL: for a store across a network,
	// the instant before the request was sent. Only Renew's result moves on.
	Since() Instant

	// Renew makes the TTL start anew and returns the new Since. It must not
	// shorten the time that the store has for the grant: a request that was
	// given up may be carried out late, after one for a longer ttl. It must not
	// revive a grant that the store has ended: then it returns ErrLost (as a
	// *LostError if the reason is known). Any other error leaves the outcome
	// open; the caller goes on trusting the old Since only. A store that cannot
	// give this grant a TTL longer than that of its request refuses one with an
	// error that is errors.ErrUnsupported, and changes nothing. Where
	// Guarantees.Expiry is false it is never called.
	Renew(ctx context.Context, ttl time.Duration) (Instant, error)

	// Release ends the grant by compare and delete: it never ends another's.
	// It returns ErrLost if the store had ended the grant already. After
	// another error it may be called again. It undoes an attempt of unknown
	// outcome whether that was granted, was queued, or arrives later.
	Release(ctx context.Context) error
}

// Notifier is a Grant that hears of its own end before a renewal would.
type Notifier interface {
	// OnLost arranges that f is called, once and in its own goroutine, with
	// the *LostError when the store has ended the grant or asks for it back. It
	// is a callback and not a channel so that a hundred thousand leases need
	// no goroutine each. OnLost is called at most once, before Release; a loss
	// that the grant has heard of before is told then.
	OnLost(f func(error))
}

// Passer is a Grant that can become the grant of the next waiter of the same
// client without coming free in between. Both are exclusive.
type Passer interface {
	// Pass ends this grant and returns that of req, on the same name and with
	// a greater token. On an error the caller releases this grant: it is
	// unchanged, or, with ErrUncertain, its Release undoes whatever the store
	// has made of the two.
	Pass(ctx context.Context, req *Request) (Grant, error)
}

// Downgrader is an exclusive Grant that can become a shared one without
// letting go in between.
type Downgrader interface {
	// Downgrade makes the grant a shared one, with the same token and TTL, and
	// grants the name to the shared waiters that may follow. It returns ErrLost
	// or ErrReleased if the grant has ended. After another error, and after
	// success, it may be called again; the caller takes the grant for shared from
	// the first call on.
	// Package pawl calls it only if Guarantees.Shared is true.
	Downgrade(ctx context.Context) error
}

// Inheriter is a Grant that lives as long as any process has its files open.
type Inheriter interface {
	// Files returns the open files that a child process must inherit. After
	// it has been called, Release no longer ends the grant by force: it closes
	// this process's copies, and the grant ends when the last process has. Pass
	// must fail then, as nobody knows when the child has done its work.
	Files() []*os.File
}

// Request is one attempt to obtain a lease. Drivers must not change it.
type Request struct {
	Name   string        // accepted by CheckName
	Lease  string        // unique id of this attempt, with 128 random bits or more
	TTL    time.Duration // at least MinTTL
	Holder *Holder       // who asks; never nil
	Why    string        // what for, in the words of the caller; may be empty

	// The kind of lease. At most one of the two is set.
	Shared bool // held together with other shared leases
	Slots  int  // if positive, held by at most so many at a time

	// Renewed says that the caller renews the grant before Since + TTL - Drift(TTL), and
	// soon if Since is long ago. The store may then begin with less than the TTL, and
	// Since is so much earlier. A driver need not look at it.
	Renewed bool
}

// MinTTL is the shortest time to live. Below it, the allowance for clock
// drift and the scheduling of an ordinary system leave nothing to trust.
const MinTTL = 10 * time.Millisecond

// Guarantees is what a store can promise, whatever its driver does.
type Guarantees struct {
	// Fencing: every grant has a token greater than that of all earlier ones
	// on the name.
	Fencing bool
	// FIFO: waiters of different participants are granted the name in the order
	// in which they began to wait.
	FIFO bool
	// CrossHost: participants may be on different machines.
	CrossHost bool
	// Expiry: the store ends a lease when its TTL has passed without renewal.
	// Without it a lease lasts until it is released, broken, or its process
	// has ended, and has no deadline.
	Expiry bool
	// SurvivesRestart: a restart of the store loses no lease that its holder
	// still trusts, and tokens go on. Where there is no server, the machine is
	// what restarts, and it ends the holders too.
	SurvivesRestart bool
	// Shared: leases can be shared, by readers that keep writers out.
	Shared bool
	// Slots: a name can be held by a fixed number at a time.
	Slots bool
}

// Missing returns the names of the guarantees in want that g lacks.
func (g Guarantees) Missing(want Guarantees) []string {
	var missing []string
	for _, c := range []struct {
		name       string
		have, want bool
	}{
		{"Fencing", g.Fencing, want.Fencing},
		{"FIFO", g.FIFO, want.FIFO},
		{"CrossHost", g.CrossHost, want.CrossHost},
		{"Expiry", g.Expiry, want.Expiry},
		{"SurvivesRestart", g.SurvivesRestart, want.SurvivesRestart},
		{"Shared", g.Shared, want.Shared},
		{"Slots", g.Slots, want.Slots},
	} {
		if c.want && !c.have {
			missing = append(missing, c.name)
		}
	}
	return missing
}
