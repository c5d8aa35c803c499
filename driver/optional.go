// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"time"
)

// A Driver may also be a Queuer, Inspector, Reporter, Describer, Examiner, Recaller or Adopter, and a
// Grant may also be a Notifier, Downgrader, Reserver, Guarder or Recallable. Package pawl asks
// for each with a type assertion, and does without those that are missing.

// Queuer is a Driver whose store has a queue and notifies waiters, so that they need
// not ask again and again. Package pawl polls, with jitter, where a driver is not a
// Queuer.
type Queuer interface {
	Driver

	// Acquire waits in the store's queue until the name is granted or ctx ends.
	//
	// Once it is in the queue, it goes on through a silence of the store for the TTL of
	// req, counted from the first request without an answer. After that it returns a
	// *SilentError, with a Grant whose Release gives up its place if that may still be
	// there. It also goes on for as long as the store refuses requests: such a store is
	// not silent.
	//
	// Otherwise the results are those of TryAcquire, except that it never returns
	// ErrHeld. It returns a *SlotsError to a caller that comes while another number of
	// slots is held; one that is in the queue by then may wait on.
	//
	// A waiter that gives up must leave the queue, and those behind it may be granted
	// the name because of that. A waiter that is granted the name in the instant in
	// which ctx ends may return the Grant, or put it back and return the context's
	// error, but must not keep it.
	Acquire(ctx context.Context, req *Request) (Grant, error)
}

// Inspector is a Driver that can show holders and waiters, and end a lease of another
// participant.
type Inspector interface {
	Driver

	// Inspect describes a name. If nobody holds the name, that is not an error: the
	// Info has no holders.
	Inspect(ctx context.Context, name string) (*Info, error)

	// List describes the names that have a holder or a waiter and begin with
	// prefix, sorted by name.
	List(ctx context.Context, prefix string) ([]*Info, error)

	// Break ends the lease with the given id on name, by compare and delete: if that
	// lease is not the holder, it changes nothing and returns a *HeldError if another
	// lease is, or if a transaction keeps the name (Held.Transaction), or ErrReleased if
	// none is. The victim's LostError has by and why. Where
	// only the victim can let go (files), Break asks it to, and returns when it has or
	// when ctx ends.
	Break(ctx context.Context, name, lease string, by *Holder, why string) error
}

// Reporter is a Driver that also reports events of the store itself.
type Reporter interface {
	Driver

	// OnNews makes the driver call f with all news, including earlier ones. f does not
	// block. OnNews is called at most once.
	OnNews(f func(News))
}

// Describer is a Driver that can describe the state of its store, for people and their
// tools.
type Describer interface {
	Driver

	// Describe returns the state and changes nothing.
	Describe(ctx context.Context) (*StoreInfo, error)
}

// StoreInfo is the state of a store.
type StoreInfo struct {
	// MaxTTL is the longest TTL that a lease may have, on which all clients of the
	// store have agreed. It is 0 if the store has not granted anything yet or does not
	// need it.
	MaxTTL time.Duration
	// SetBy is who has set MaxTTL; nil if that is not known.
	SetBy *Holder
	// Closed is for how much longer the store grants nothing, as it may have forgotten
	// leases that last until then. Why gives the cause in one clause.
	Closed time.Duration
	Why    string
}

// News is one thing that happened to a store. One of Step, Closed and Silent is set.
type News struct {
	Server string // the server that it is about; for people
	// Step is by how much its clock, by which it ends leases, was set forward; negative
	// if it was set back.
	Step time.Duration
	// Closed is for how much longer it grants nothing, as it may have forgotten leases
	// that last until then.
	Closed time.Duration
	// Silent is for how long it has not answered, and no message of it could be heard.
	// It is reported soon, and again while the silence lasts.
	Silent time.Duration
}

// Notifier is a Grant that learns of its own end before a renewal would.
type Notifier interface {
	// OnLost arranges that f is called, once and in its own goroutine, with the
	// *LostError when the store has ended the grant or asks for it back. It is a
	// callback and not a channel so that a hundred thousand leases need no goroutine
	// each. OnLost is called at most once, before Release; if the grant already knows
	// of its loss, f is called then.
	OnLost(f func(error))
}

// Downgrader is an exclusive Grant in whose place its store can put a shared one, without
// letting go in between.
type Downgrader interface {
	// Downgrade ends the grant and grants its name to req in one step, and then to the shared
	// waiters that come next. Req is an attempt of its own: it is Shared, and has the same
	// Name and another Lease.
	//
	// After success the grant has ended as released: Renew returns ErrReleased, Release does
	// nothing, and nothing is told to OnLost. If the grant had ended before, the error is ErrLost
	// or ErrReleased. Other errors, and the Grant that may come with them, are those of TryAcquire;
	// then the grant may have ended, and the caller releases it. A request that is carried out
	// after that changes nothing. Package pawl calls Downgrade only if
	// Guarantees.Shared is true.
	Downgrade(ctx context.Context, req *Request) (Grant, error)
}

// Guarder is a Grant of a store that is a database, which can bind a transaction of the
// user to it.
type Guarder interface {
	// Guard makes tx, an open transaction on the database of the store, fail unless the
	// grant has not ended, and then keeps every other grant on the name from beginning
	// until tx has ended. It returns ErrLost if the grant has ended, and an error that is
	// errors.ErrUnsupported if tx is of a type that the store does not know. After any other
	// error tx cannot be committed, also if ctx has ended. If ended is not nil, the lease has
	// ended for that reason: Guard makes tx fail and returns ended. Once Guard has been called,
	// Reserved must return 0 tokens: tx may end after the grant was handed over.
	Guard(ctx context.Context, tx any, ended error) error
}

// Reserver is a Grant that comes with more tokens than its own. Package pawl passes it
// on to the next waiters of the same client, one after the other and each with the next
// of these tokens, without a request to the store. All that time the store sees one
// grant, with one lease id, one record and one TTL. Their leases are renewed, broken
// and lost as this grant is, and the last of them releases it.
//
// If the store is an Inheriter, package pawl no longer uses the tokens once Files
// has been called: otherwise a child with the files of one lease would also hold the
// next.
type Reserver interface {
	// Reserved returns how many tokens after Token are set aside for this grant: every
	// other grant on the name has a greater token than these, or one smaller than
	// Token. It is asked before each hand-over. The number is constant, but for 0: then the
	// grant must not be handed over any more, as it may have ended. others reports whether
	// another participant was waiting for the name when it was granted, or may have been.
	Reserved() (tokens uint64, others bool)
}

// Recaller is a Driver whose store tells a holder that others want the name.
type Recaller interface {
	Driver

	// Recalls reports whether it does. It is constant. If it is true, the grants of
	// requests with Keeps are Recallable, and Reservers.
	Recalls() bool
}

// Recall is why a Recallable is to be given back.
type Recall int

const (
	// Waits: somebody waits for the name in the store's queue.
	Waits Recall = iota
	// Asks: somebody was refused, and may ask again soon.
	Asks
	// Unheard: one of these may have been, unheard.
	Unheard
)

// Recallable is a Grant whose holder learns that others want the name. That is a hint: it
// may be late, lost or repeated, and nothing but time depends on it.
type Recallable interface {
	// OnWanted arranges that f is called, in its own goroutine, each time that the store
	// has refused somebody because of this grant or has put somebody into its queue, from
	// the beginning of the grant on. OnWanted is called at most once.
	OnWanted(f func(Recall))
}

// Adopter is a Driver whose grants are tied to no participant: Close, and the end of the
// process, do not end them, and whoever knows the id of a lease can renew and release it.
// Package pawl does not use it, as its leases have a client that renews them. The command
// does, for scripts: see pawl acquire.
type Adopter interface {
	Driver

	// Adopt returns the grant on name with the given lease id, which any participant may
	// have got. It records nothing. It returns ErrLost, as a *LostError if the reason is
	// known, if that lease does not hold name: it has ended, still waits, or is one of
	// another name or of another library. It is never called where Guarantees.Expiry is
	// false. While the store is closed, as it may have forgotten how a lease has ended, Adopt and
	// Renew return a *ClosedError: the lease that it shows may be followed by another one.
	//
	// The Grant is no more than that, and has the Token of the lease. Its Since is 1, the
	// first Instant, as nobody knows when the TTL began: it is trusted from a Renew on. Renew
	// may refuse a TTL longer than that of the request, as of other grants, and Release
	// ends that lease only, wherever it is renewed from. A participant that still has the
	// grant learns of that at its next renewal.
	Adopt(ctx context.Context, name, lease string) (Grant, error)
}
