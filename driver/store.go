// SPDX-License-Identifier: Apache-2.0

// Package driver is the contract between package pawl and one store of leases. Only
// authors of stores need it.
//
// A Store is small on purpose. It encodes a request, sends it and decodes the answer, and it reports what
// the service says unasked. What is common to all stores is done once, by its callers: waiting and
// looking, doubts about lost answers, outages, hand-over, the trust window, renewals, the line of local
// waiters, clean-up, observation.
//
// Package drivertest holds the suite that every store passes.
package driver

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"
)

// A Store is the wire to one lock service, and one participant in it: two Stores that are opened on the
// same service exclude each other. Each method but Listen and Hear is one request. A Store keeps no record
// of the leases of its client.
//
// For one name, grants are linearizable across all participants: between the moment at which the service
// grants a lease and the moment at which it ends it (by End, by the passing of its TTL, by Break, or, where
// Guarantees.Expiry is false, by the end of the process), it grants no other lease on the name.
//
// Kinds: a lease is exclusive, shared, or one of n slots. Leases on one name are held together only if all
// are shared, or all are slots with the same n and there are at most n of them. A waiter in the queue is
// granted the name as soon as its lease may be held together with those that are held, and no earlier waiter
// still waits. So a steady stream of readers does not starve a writer, and readers that follow each other in
// the queue are granted together. If Guarantees.FIFO is true, a request without Queue does not overtake
// waiters either. A Store is never asked for a kind that its Guarantees lack.
//
// A Store does not repeat requests, log, or start timers for a lease. It returns the sentinel errors of this
// package, wrapped with %w and together with the cause; it never hides a context error behind one of them.
//
// All methods are safe for concurrent use. An error that is no *Failure leaves open whether the
// request was carried out.
type Store interface {
	// Caps says what the store promises and what it can do. It is constant.
	Caps() Caps

	// Ask asks for the lease r.Lease on r.Name. If the lease holds the name already, it is granted
	// again, with the same token. If r.Queue is set and the name is not granted, the lease is in the
	// queue from then on; a repetition keeps its place.
	Ask(ctx context.Context, r *Request) (Answer, error)

	// Renew makes the TTL of a lease start anew. It never shortens what a lease has left: a ttl of a
	// microsecond asks whether the lease still holds the name. It returns a *LostError if the
	// lease has ended, and never revives it. A store that cannot give a lease a longer TTL than it
	// was asked for with returns errors.ErrUnsupported and changes nothing.
	Renew(ctx context.Context, l Ref, ttl time.Duration) (Renewal, error)

	// End ends a lease, or takes it out of the queue, by compare and delete. It reports whether the
	// lease was there. An End with Unsure or Doubt also has an effect on requests for the lease that
	// the service receives later: they grant nothing.
	End(ctx context.Context, l Ref, how End) (found bool, err error)

	// Listen makes the store call f with each event from then on. It is called once, before
	// any request. f does not block and calls no method of the store. Several goroutines may
	// call it at a time.
	Listen(f func(Event))

	// Hear makes events about name arrive until stop is called. ready is closed as soon as
	// they do, or the store knows why they cannot; then Ask with Queue says it.
	Hear(name string) (ready <-chan struct{}, stop func())

	// Inspect describes a name. A name that nobody holds has an Info without holders.
	Inspect(ctx context.Context, name string) (*Info, error)

	// List describes the names that have a holder or a waiter and begin with prefix, sorted by
	// name.
	List(ctx context.Context, prefix string) ([]*Info, error)

	// Break ends the lease of any participant. If that lease does not hold name, it changes nothing
	// and returns a *HeldError if another lease does, or if a transaction keeps the name, and
	// else ErrReleased. The participant that had the lease gets a Lost event with by and why.
	Break(ctx context.Context, name, lease string, by *Holder, why string) error

	// Describe returns what all clients of the service have agreed on, and changes nothing. The error is
	// errors.ErrUnsupported if they agree on nothing.
	Describe(ctx context.Context) (*StoreInfo, error)

	// Examine asks each server how it is, and changes nothing. It returns what is good and what is
	// bad; a server that does not answer is a Finding as well.
	Examine(ctx context.Context) []Finding

	// Close frees what the store itself opened. Requests under way return soon.
	Close() error
}

// Guarder is a Store of a database that can bind a transaction of the user to a lease.
type Guarder interface {
	// Guard makes tx, an open transaction on the database of the store, fail unless the lease with that
	// token has not ended, and then keeps every other lease on the name from beginning until tx has ended.
	// It returns ErrLost if the lease has ended, and an error that is errors.ErrUnsupported if tx is of a
	// type that the store does not know. After any other error tx cannot be committed, also if ctx has
	// ended. If ended is not nil, the lease has ended for that reason: Guard makes tx fail and returns ended.
	Guard(ctx context.Context, l Ref, token uint64, tx any, ended error) error
}

// Inheriter is a Store whose leases live as long as any process has their files open.
type Inheriter interface {
	// Files returns the open files that a child process must inherit, or nil if the lease has ended. From
	// then on End closes this process's copies only, and the lease ends when the last process has.
	Files(l Ref) []*os.File
}

// Caps is what a store promises, and what it can do.
type Caps struct {
	Guarantees

	// Queue: Ask may join a queue, and Granted and Look events tell who has its turn.
	Queue bool
	// Look is how often a waiter in the queue looks although it has heard nothing. 0: no event is
	// lost, and a waiter looks only when the first lease before it must have ended.
	Look time.Duration
	// Shows: Inspect, List and Break work.
	Shows bool
	// Keeps: Wanted events tell the client of a lease that others want its name. Only with Expiry.
	Keeps bool
	// Adopts: a lease is tied to no participant. Who knows its id can renew and end it, and it outlives
	// the Store that has got it.
	Adopts bool
	// Downgrades: Ask understands Request.Instead.
	Downgrades bool
	// Bounded: a request without an answer fails after some seconds, also if its context goes on.
	Bounded bool
	// Paces: a request waits in the client while many others are under way, and that is no silence of the service. One that
	// is under way ends by itself, within the TTL of its lease.
	Paces bool
	// LongerTTL: Renew may give a lease a longer TTL than it was asked for with.
	LongerTTL bool
}

// Answer is the answer to a request for a lease.
type Answer struct {
	Granted bool
	Token   uint64  // of the lease
	Spare   uint64  // how many tokens after it are set aside for the lease
	Waited  bool    // another participant was waiting for the name, or may have been
	Since   Instant // the latest one that is certainly not after the start of the TTL
	Handle  any     // goes into the next request for the lease and into its Ref, also of a request that was refused or has failed; nil: the last one stays

	// If the lease was not granted:
	Holders []Held        // may be missing if the request was for the queue
	Rank    int           // in the queue: 0 is first
	Free    time.Duration // until the lease may be granted, rounded up, if nobody renews; negative: unknown
	Closed  time.Duration // for how much longer the store grants nothing, as it may have forgotten leases
	Again   time.Duration // after which the request is repeated, so that the lease keeps its place; 0: it does
	Session any           // comparable: over what events about the name arrive; nil: they do not

	Clock
}

// Renewal is the answer to a renewal.
type Renewal struct {
	Since Instant // as in Answer
	Kept  bool    // the lease has a longer TTL already, which stays
	Clock
}

// Clock is what the clock of a server has shown in an answer. The zero Clock is of a store without one.
type Clock struct {
	Server string
	Sent   Instant       // before the request was sent; also of one that has failed, if it waited in the client
	At     time.Duration // since 1970; 0: no clock
}

// Ref names a lease.
type Ref struct {
	Name, Lease string
	Shared      bool
	Slots       int
	Handle      any // from the last Answer or Event about the lease; nil for a lease of another Store
}

// End is how a lease is ended.
type End struct {
	Unsure bool // the lease may not have been granted, and be in the queue
	Doubt  bool // a request for the lease had no answer, and the service may receive it yet
}

// EventKind says which fields of an Event are set.
type EventKind int

const (
	// Granted: the service has granted Name to the waiter Lease. Grant says what it is worth.
	Granted EventKind = iota + 1
	// Look: Lease is first in the queue now, and its name may be free after Grant.Free; 0: now.
	Look
	// Lost: Lease was ended by somebody else, or is to be given back. Loss says why, if that is known.
	Lost
	// Wanted: Lease was in the way of somebody who now Waits, or who was refused.
	Wanted
	// Missed: events about the names that Concerns accepts may have been lost.
	Missed
	// Told: News.
	Told
)

// Event is a message of a service that is not an answer. Events may be late, repeated or lost.
type Event struct {
	Kind     EventKind
	Name     string
	Lease    string
	Grant    Answer                 // Granted: Token, Spare, Waited, Handle, Session, and Since or Clock
	For      time.Duration          // Granted without Since: the lease has the name for so long after Grant.At
	Heard    Instant                // Granted: when the message was read; 0: at Since
	Loss     *LostError             // Lost
	Waits    bool                   // Wanted
	Concerns func(name string) bool // Missed; nil: all names
	News     News                   // Told
}

// Failure is an error of a request, with what is known of the request.
type Failure struct {
	Err     error // what the caller gets
	Maybe   bool  // the service may have carried the request out, or may do so yet
	Lasting bool  // a repetition will fail as well
	Silent  bool  // there was no answer
	Passing bool  // nothing is wrong: the request has to be repeated
	Ended   bool  // the lease was ended before it was granted; one with another id may be granted
}

// Error returns the text of f.Err.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns f.Err.
func (f *Failure) Unwrap() error { return f.Err }

// FailureOf returns what is known of a request that has failed with err. One that is no *Failure may have been carried
// out, and there was no answer, unless err says better: ErrUnavailable, ErrRefused, or one of the answers that a
// repetition would have as well.
func FailureOf(err error) Failure {
	var f *Failure
	var slots *SlotsError
	if errors.As(err, &f) {
		return *f
	}
	answer := errors.As(err, &slots)
	for _, known := range []error{ErrHeld, ErrLost, ErrReleased, ErrDisagree, ErrDenied, fs.ErrInvalid, errors.ErrUnsupported} {
		answer = answer || errors.Is(err, known)
	}
	return Failure{Err: err, Maybe: !answer && !errors.Is(err, ErrUnavailable), Silent: !answer && !errors.Is(err, ErrRefused), Lasting: answer}
}

// Basic has the methods of a Store that does without a queue, events and a look from outside. Embed it in
// a Store.
type Basic struct{}

var ready = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Listen implements Store: there are no events.
func (Basic) Listen(func(Event)) {}

// Hear implements Store: there is nothing to wait for.
func (Basic) Hear(string) (<-chan struct{}, func()) { return ready, func() {} }

// Inspect implements Store with errors.ErrUnsupported.
func (Basic) Inspect(context.Context, string) (*Info, error) { return nil, errors.ErrUnsupported }

// List implements Store with errors.ErrUnsupported.
func (Basic) List(context.Context, string) ([]*Info, error) { return nil, errors.ErrUnsupported }

// Break implements Store with errors.ErrUnsupported.
func (Basic) Break(context.Context, string, string, *Holder, string) error {
	return errors.ErrUnsupported
}

// Describe implements Store with errors.ErrUnsupported: there is nothing to agree on.
func (Basic) Describe(context.Context) (*StoreInfo, error) { return nil, errors.ErrUnsupported }

// Examine implements Store: there is nothing to see.
func (Basic) Examine(context.Context) []Finding { return nil }

// Close implements Store.
func (Basic) Close() error { return nil }
