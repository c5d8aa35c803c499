// SPDX-License-Identifier: Apache-2.0

package driver

import "time"

// Request is one attempt to obtain a lease. A Store does not change it.
type Request struct {
	Name   string        // accepted by CheckName
	Lease  string        // unique id of this attempt, with at least 128 random bits
	TTL    time.Duration // at least MinTTL
	Holder *Holder       // who makes the attempt; never nil
	Why    string        // what the lease is for, in the words of the caller; may be empty

	// Holds are leases that the caller holds while it waits, perhaps in other stores. They
	// are part of the waiter's record, for the search for deadlocks. They are nil for most
	// callers, and a few kilobytes at most; a store may leave out the first ones.
	Holds []Hold

	// The kind of lease. At most one of the two is set.
	Shared bool // held together with other shared leases
	Slots  int  // if positive, held by at most this many at a time

	// Queue: join the queue, or keep the place in it.
	Queue bool

	// Instead is the id of an exclusive lease of this client: the service ends that lease and grants
	// this shared one, in one step. If that lease has ended, Ask returns a *LostError.
	Instead string

	// Handle comes from the last Answer to a request for this lease.
	Handle any

	// Renewed says that the caller renews the grant before Since + TTL - Drift(TTL),
	// and soon if Since is long ago. The store may then grant less than the TTL, with a
	// Since that is earlier by the difference. A store may ignore it.
	Renewed bool

	// Keeps says that the client may keep the lease for a while after its release. The store reserves
	// Spare tokens for it, and reports Wanted when others want the name. It is set only if Caps.Keeps is.
	Keeps bool
}

// MinTTL is the shortest time to live. Below it, the allowance for clock
// drift and the scheduling of an ordinary system leave nothing to trust.
const MinTTL = 10 * time.Millisecond

// Guarantees is what a store can promise.
type Guarantees struct {
	// Fencing: every grant has a token greater than all earlier ones
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
