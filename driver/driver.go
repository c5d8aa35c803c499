// SPDX-License-Identifier: Apache-2.0

// Package driver is the contract between package pawl and one store of leases. Only
// authors of stores need it.
//
// A driver is small on purpose. It makes one attempt, renews, releases, and, if the
// store has a queue of its own, waits in it. Package pawl does once what is common to
// all stores: the trust window, the renewal schedule, the line of local waiters,
// retries, clean-up after an attempt with an unknown outcome, error wrapping, logging
// and observation.
//
// The contract is frozen: six stores as different as memory and a consensus cluster fit
// it. No method of its interfaces is added or changed. For what a store can do beyond
// it there are further interfaces, which a Driver or a Grant may implement.
//
// Package drivertest holds the suite that every driver must pass.
package driver

import (
	"context"
	"time"
)

// Driver is one participant in one store. Two Drivers that are opened on the same store
// exclude each other. All methods are safe for concurrent use.
//
// For one name, grants must be linearizable across all participants: between
// the moment a grant begins in the store and the moment the store ends it
// (by Release, by the passing of its TTL, by Break, or, where
// Guarantees.Expiry is false, by the end of the process), no other grant on
// the name begins.
//
// Kinds: a lease is exclusive, shared, or one of n slots. Leases on one name are held
// together only if all are shared, or all are slots with the same n and there are at
// most n of them. A waiter is granted the name as soon as its lease may be held
// together with those that are held, and no earlier waiter still waits. So a steady
// stream of readers does not starve a writer, and readers that follow each other in the
// queue are granted together. If Guarantees.FIFO is true, TryAcquire does not overtake
// waiters either. Package pawl never asks for a kind that the Guarantees lack.
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

	// Close frees what the driver itself opened, never a connection that its user
	// passed in. Package pawl releases all grants before. Later calls, and those that
	// wait, return ErrClosed.
	Close() error
}

// Grant is a lease as the store sees it. Its methods are safe for concurrent use. Only
// the first Release that takes effect does anything.
type Grant interface {
	// Token is the fencing token: greater than that of every earlier grant on
	// the name, or 0 if the store has none.
	Token() uint64

	// Since is the latest local instant that is certainly not after the moment at which
	// the store began to count the TTL. For a store across a network, it is the instant
	// before the request was sent. It does not change; Renew returns later ones.
	Since() Instant

	// Renew makes the TTL start anew and returns the new Since. It must not shorten the
	// time that the grant has left in the store: a request that was given up may be
	// carried out late, after one for a longer ttl. It must not revive a grant that the
	// store has ended: then it returns ErrLost (as a *LostError if the reason is
	// known). Any other error leaves the outcome open; the caller then trusts only the
	// old Since. If the store cannot give this grant a TTL longer than that of its
	// request, Renew changes nothing and returns an error that is
	// errors.ErrUnsupported. It is never called where Guarantees.Expiry is false.
	Renew(ctx context.Context, ttl time.Duration) (Instant, error)

	// Release ends the grant by compare and delete: it never ends another's. It returns
	// ErrLost if the store had ended the grant already. After another error it may be
	// called again. It undoes an attempt of unknown outcome, whether the store has
	// granted it, has queued it, or receives it later.
	Release(ctx context.Context) error
}

// Request is one attempt to obtain a lease. Drivers must not change it.
type Request struct {
	Name   string        // accepted by CheckName
	Lease  string        // unique id of this attempt, with 128 random bits or more
	TTL    time.Duration // at least MinTTL
	Holder *Holder       // who makes the attempt; never nil
	Why    string        // what for, in the words of the caller; may be empty

	// Holds are leases that the caller holds while it waits, perhaps in other stores. Whoever
	// is shown the waiter is shown them, as deadlocks are found by them. They are nil for most
	// callers, and a few kilobytes at most; a driver may leave out some, the first ones first.
	Holds []Hold

	// The kind of lease. At most one of the two is set.
	Shared bool // held together with other shared leases
	Slots  int  // if positive, held by at most this many at a time

	// Queue and Instead are for a Store. Queue: join the queue, or keep the place there.
	// Instead: the id of an exclusive lease of this client, in whose place this shared one is
	// granted, in one step. If that lease has ended, Ask returns a *LostError.
	Queue   bool
	Instead string

	// Handle is for a Store, too: that of the last Answer to a request for this lease.
	Handle any

	// Renewed says that the caller renews the grant before Since + TTL - Drift(TTL),
	// and soon if Since is long ago. The store may then begin with less than the TTL;
	// Since is earlier by the difference. A driver may ignore it.
	Renewed bool

	// Keeps says that the caller may keep the grant for a while when nobody uses it, and
	// that it gives it back when others want the name: the grant is to be Recallable. A
	// driver that is no Recaller never sees it.
	Keeps bool
}

// MinTTL is the shortest time to live. Below it, the allowance for clock
// drift and the scheduling of an ordinary system leave nothing to trust.
const MinTTL = 10 * time.Millisecond

// Guarantees is what a store can promise.
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
	// SurvivesRestart: a restart of the store loses no lease that its holder still
	// trusts, and tokens go on. For a store without a server it is the machine that
	// restarts, which ends the holders too.
	SurvivesRestart bool
	// Shared: leases can be shared, as by readers that keep writers out.
	Shared bool
	// Slots: a fixed number of leases on a name can be held at a time.
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
