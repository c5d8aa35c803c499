// SPDX-License-Identifier: Apache-2.0

package driver

import "time"

// StoreInfo is the state of a store.
type StoreInfo struct {
	// MaxTTL is the longest TTL that a lease may have, as all clients of the store have
	// agreed. It is 0 if the store has not granted anything yet or needs no MaxTTL.
	MaxTTL time.Duration
	// SetBy is who has set MaxTTL; nil if unknown.
	SetBy *Holder
	// Closed is for how much longer the store grants nothing, because it may have forgotten leases
	// that last until then. Why says the cause in one clause, and Do how to end the wait at once.
	Closed  time.Duration
	Why, Do string // empty if Closed is 0
}

// News is one thing that happened to a server of a store. One of Step, Closed, Silent and Refused is set.
type News struct {
	Server string // for people
	// Step is by how much the server's clock, which ends leases, was set forward; negative if
	// it was set back.
	Step time.Duration
	// Closed is for how much longer the server grants nothing, because it may have forgotten leases
	// that last until then.
	Closed time.Duration
	// Silent is for how long the server has sent neither an answer nor a message. It is reported
	// soon, and again while the silence lasts.
	Silent time.Duration
	// Refused is why the server refuses requests for leases at present, although it answers. A
	// store returns it as the error of a request, and does not report it.
	Refused error
}
