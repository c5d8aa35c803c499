// SPDX-License-Identifier: Apache-2.0

package driver

import "time"

// StoreInfo is the state of a store.
type StoreInfo struct {
	// MaxTTL is the longest TTL that a lease may have, on which all clients of the
	// store have agreed. It is 0 if the store has not granted anything yet or does not
	// need it.
	MaxTTL time.Duration
	// SetBy is who has set MaxTTL; nil if that is not known.
	SetBy *Holder
	// Closed is for how much longer the store grants nothing, as it may have forgotten
	// leases that last until then. Why gives the cause in one clause, and Do what ends that at once.
	Closed  time.Duration
	Why, Do string // empty if Closed is 0
}

// News is one thing that happened to a store. One of Step, Closed, Silent and Refused is set.
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
	// Refused is why it refuses requests for leases for now, although it answers. A store returns that
	// as the error of a request, and does not report it.
	Refused error
}
