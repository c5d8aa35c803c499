// SPDX-License-Identifier: Apache-2.0

// Package driver is the contract between package pawl and one store of leases. Only
// authors of stores need it.
//
// A Store encodes a request, sends it, decodes the answer, and reports the events of its service. Package
// pawl does the rest, once for all stores: waiting and looking, lost answers, outages, hand-over, the trust
// window, renewals, the queue of local waiters, clean-up and observation.
//
// Package drivertest/wiretest is the suite that every store passes.
package driver

import (
	"context"
	"os"
	"time"
)

// A Store is the wire to one lock service, and one participant in it: two Stores that are opened on the
// same service exclude each other. Each method except Listen and Hear is one request. A Store keeps no
// record of the leases of its client.
//
// Grants of one name are linearizable across all participants. While a lease has the name, the service
// grants no other lease on it. The lease ends by End, by Break, when its TTL has passed or, where
// Guarantees.Expiry is false, with its process.
//
// A lease is exclusive, shared, or one of n slots. Leases hold a name together only if all are shared, or
// all are slots with the same n and there are at most n of them. A waiter in the queue is granted the name
// when no earlier waiter still waits and its lease fits the leases that hold the name. So readers that keep
// coming do not starve a writer, and readers that follow each other in the queue are granted together. If
// Guarantees.FIFO is true, a request without Queue does not overtake waiters either. A Store is never asked
// for a kind that its Guarantees lack.
//
// A Store does not repeat requests, log, or start timers for a lease. It may read again when
// a compare-and-set has failed because of another version. It wraps the cause of an error with %w, so that
// errors.Is finds a context error too.
//
// All methods are safe for concurrent use. If a request fails with an error that is not a *Failure, the
// service may have carried it out; FailureOf lists the exceptions.
type Store interface {
	// Caps says what the store promises and what it can do. It is constant.
	Caps() Caps

	// Ask asks for the lease r.Lease on r.Name. If that lease has the name already, Ask grants it
	// again, with the same token, and never shortens it. If r.Queue is set and the name is not granted, the lease joins the
	// queue; a repeated request keeps its place.
	Ask(ctx context.Context, r *Request) (Answer, error)

	// Renew begins the TTL of a lease anew. It never shortens what a lease has left: with a ttl of a
	// microsecond it only tells whether the lease still has the name. If the lease has ended, Renew
	// returns a *LostError and does not revive it. If the store cannot make the TTL longer than that
	// of the Request, Renew returns errors.ErrUnsupported and changes nothing.
	Renew(ctx context.Context, l Ref, ttl time.Duration) (Renewal, error)

	// End ends a lease, or removes it from the queue, by compare and delete. It reports whether the
	// lease was there. After an End with Doubt, requests for the lease that arrive late grant
	// nothing.
	End(ctx context.Context, l Ref, how End) (found bool, err error)

	// Listen makes the store call f with each event. The client calls Listen once, before any
	// request. f does not block and calls no method of the store. Several goroutines may call f at
	// a time.
	Listen(f func(Event))

	// Hear makes events about name arrive until stop is called. ready is closed when they arrive
	// from then on, or when the store knows that they cannot: Ask with Queue then says why.
	Hear(name string) (ready <-chan struct{}, stop func())

	// Inspect describes a name. If nobody has the name, the Info has no holders.
	Inspect(ctx context.Context, name string) (*Info, error)

	// List describes the names that have a holder or a waiter and begin with prefix, sorted by
	// name.
	List(ctx context.Context, prefix string) ([]*Info, error)

	// Break ends the lease of any participant. If that lease does not have the name, Break changes
	// nothing: it returns a *HeldError if another lease or a transaction has the name, and otherwise
	// ErrReleased. The participant that had the lease gets a Lost event with by and why.
	Break(ctx context.Context, name, lease string, by *Holder, why string) error

	// Describe returns what all clients of the service have agreed on, and changes nothing. The error is
	// errors.ErrUnsupported if they need not agree on anything.
	Describe(ctx context.Context) (*StoreInfo, error)

	// Examine checks each server, and changes nothing. It returns good and bad findings; a server
	// that does not answer is a Finding as well.
	Examine(ctx context.Context) []Finding

	// Close frees what the store itself opened. Requests under way return soon.
	Close() error
}

// Guarder is a Store of a database that can bind a transaction of the user to a lease.
type Guarder interface {
	// Guard lets tx, an open transaction on the store's database, commit only if the lease with that
	// token has not ended. Until tx ends, the service then grants the name to no other lease. Guard
	// returns ErrLost if the lease has ended, and errors.ErrUnsupported if the store does not know the
	// type of tx. After any other error tx cannot be committed, even if ctx has ended. If ended is not
	// nil, the lease has ended for that reason: Guard makes tx fail and returns ended.
	Guard(ctx context.Context, l Ref, token uint64, tx any, ended error) error
}

// Inheriter is a Store whose leases live as long as any process has their files open.
type Inheriter interface {
	// Files returns the open files that a child process must inherit, or nil if the lease has ended.
	// After Files, End closes only the copies of this process: the lease ends when the last process has
	// closed its own.
	Files(l Ref) []*os.File
}

// Caps is what a store promises, and what it can do.
type Caps struct {
	Guarantees

	// Queue: Ask can join a queue, and a Granted or Look event tells a waiter that it is next.
	Queue bool
	// Look, only with Queue, is how often a waiter in the queue asks again although it has heard nothing. 0 means that no
	// event is lost: a waiter asks again only when the lease before it must have ended.
	Look time.Duration
	// Shows: Inspect, List and Break work.
	Shows bool
	// Keeps: Wanted events tell the client of a lease that others want its name. Only with Expiry.
	Keeps bool
	// Adopts: a lease belongs to no participant. Every participant that knows its id can renew and end
	// it, and it outlives the Store that asked for it.
	Adopts bool
	// Downgrades: Ask understands Request.Instead.
	Downgrades bool
	// Bounded: a request without an answer fails after some seconds, even if its context goes on.
	Bounded bool
	// Paces: a request waits in the client while many others are under way, which does not count as
	// silence of the service. Once sent, it ends by itself within the TTL of its lease.
	Paces bool
	// LongerTTL: Renew can make the TTL of a lease longer than that of its Request.
	LongerTTL bool
}

// Answer is the answer to a request for a lease.
type Answer struct {
	Granted bool
	Token   uint64  // of the lease
	Spare   uint64  // how many tokens after Token are reserved for the lease
	Waited  bool    // another participant waited for the name, or may have; false without a queue
	Since   Instant // the TTL began then or later; trust counts from here
	// Handle goes into the next request for the lease and into its Ref, even if this request was refused
	// or has failed. nil: the last Handle stays.
	Handle any

	// If the lease was not granted:
	Holders []Held        // may be missing if Request.Queue was set
	Rank    int           // in the queue: 0 is first
	Free    time.Duration // until the lease may be granted if nobody renews, rounded up; negative: unknown
	Closed  time.Duration // for how much longer the store grants nothing, as it may have forgotten leases
	Again   time.Duration // repeat the request after this time to keep the place; 0: it is kept anyway
	Session any           // the connection over which events about the name arrive, comparable; nil: none do

	Clock
}

// Renewal is the answer to a renewal.
type Renewal struct {
	Since Instant // as in Answer
	Heard Instant // when the answer came; 0: when Renew returned
	Kept  bool    // the lease had more time left already, and keeps it
	Clock
}

// Clock is the time that a server's clock showed in an answer. It is optional: a
// client learns from it that the server's clock was set forward.
type Clock struct {
	Server string        // whose clock it is
	Sent   Instant       // before the request was sent; set after a failure too if the request waited in the client
	At     time.Duration // since 1970; 0: no clock
}

// Ref names a lease.
type Ref struct {
	Name, Lease string
	Shared      bool
	Slots       int
	Handle      any // from the last Answer or Event about the lease; nil if another Store asked for it
}

// End is how a lease is ended.
type End struct {
	Unsure bool // the client does not know whether the lease has the name, is in the queue, or neither
	Doubt  bool // a request for the lease had no answer, and may still reach the service
}

// EventKind says which fields of an Event are set.
type EventKind int

const (
	// Granted: the service has granted Name to the waiter Lease. Grant, For and Heard say since when.
	Granted EventKind = iota + 1
	// Look: Lease is first in the queue now. Name may be free after Grant.Free; 0: now.
	Look
	// Lost: another client has ended Lease, or asks for it back. Loss says why, if that is known.
	Lost
	// Wanted: another client wants the Name that Lease has. It Waits, or was refused.
	Wanted
	// Missed: events about the names that Concerns accepts may have been lost.
	Missed
	// Told: something happened to the store; see News.
	Told
)

// Event is a message of a service that is not an answer. Events may be late, repeated or lost.
type Event struct {
	Kind     EventKind
	Name     string
	Lease    string
	Grant    Answer                 // Granted: Token, Spare, Waited, Handle, Session, and Since or Clock
	For      time.Duration          // Granted without Since: how long the lease has the name, from Grant.At
	Heard    Instant                // Granted: when the message was read; 0: at Since
	Loss     *LostError             // Lost
	Waits    bool                   // Wanted
	Concerns func(name string) bool // Missed; nil: all names
	News     News                   // Told
}
