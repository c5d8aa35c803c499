// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"os"
	"time"
)

// What a Driver may be besides: Queuer, Inspector, Reporter, Describer and Sets. What a
// Grant may be besides: Notifier, Passer, Downgrader, Inheriter and Reserver. Package pawl
// asks for each with a type assertion, and does without where it is missing.

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

// Sets is a Driver that can grant several names in one step.
type Sets interface {
	Driver

	// TryAcquireAll asks the store once for a lease on each of the names of reqs, no
	// two of which are alike, and gets all of them or none. It overtakes nobody
	// who waits for one of them. Grants are in the order of reqs. Errors are those of
	// TryAcquire, with a Grant for each request where there is one to undo, and one that is
	// errors.ErrUnsupported, when nothing was asked, if these names cannot be granted
	// in one step. Who gets an error may ask for them one after the other.
	TryAcquireAll(ctx context.Context, reqs []*Request) ([]Grant, error)
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

// Reserver is a Grant that comes with more tokens than its own. Package pawl passes it
// on to the next waiters of the same client, one after the other and each with the next
// of these tokens, without a word to the store: all that time the store sees one grant,
// with one lease id, one record and one TTL. They are renewed, broken and lost as this
// grant is, and the last of them releases it.
//
// Of a Grant that is an Inheriter too the tokens are forgotten once Files has been called:
// a child that has the files of one lease would have those of the next.
type Reserver interface {
	// Reserved returns how many tokens after Token are set aside for this grant: every
	// other grant on the name has a greater token than these, or one smaller than
	// Token. It is asked before each hand-over, and constant but for this: 0 says that the
	// grant must be handed over no more, as it may have ended. Others reports whether a participant other than this one
	// was waiting for the name when it was granted, or may have been.
	Reserved() (tokens uint64, others bool)
}
