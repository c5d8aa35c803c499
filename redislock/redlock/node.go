// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"time"
)

// Node is one of the N masters, as the algorithm sees it. The real one is Lua in
// a Redis server; a simulator may bring its own.
//
// Each of Propose, End, Read, List and Status is one request and one reply, and
// the node carries a request out in one step. Nothing else connects the two
// sides: no call depends on an earlier one. What can go wrong is what goes wrong
// in networks:
//
//   - An error that is driver.ErrUnavailable says that the request was not carried
//     out and never will be.
//   - After any other error, a context's included, it may have been carried out,
//     may be later, even after a later request of the same caller, or never.
//
// All methods are safe for concurrent use, and return soon after ctx has ended.
//
// # State
//
// A node keeps for each name
//
//   - the lock: none, or that of one lease, with its token, record, the time of the
//     grant by the node's clock, and the time at which it ends by the node's clock;
//     from then on there is none;
//   - the floor: the largest token stored so far and the lease that it was stored
//     for; (0, "") at first. It outlives the lock, for a day at least;
//   - the ended leases: those that may never have the lock (again), each with the
//     news for its holder. One is remembered for the longest TTL in use, and for as
//     long as a request may be under way: five minutes.
//
// and for itself an id of its run, which a restart or the loss of data changes, and
// the time until which it is closed: a node that may have forgotten locks grants
// nothing new until all of them would have ended, which is the longest TTL in use
// after its start, or after the loss was noticed. Locks that it has are extended
// meanwhile.
type Node interface {
	// Addr names the node for people. It is constant, contains no password, and
	// differs from that of every other node.
	Addr() string

	// Propose asks for the lock, or for more time. See Proposal.
	Propose(ctx context.Context, p Proposal) (Vote, error)

	// End ends what a lease has or may get. See Ending. It reports whether the
	// lease had the lock.
	End(ctx context.Context, e Ending) (had bool, err error)

	// Read returns the locks of names, in the same order, and changes nothing.
	Read(ctx context.Context, names []string) ([]Lock, error)

	// List returns the names that begin with prefix and have a lock, in any order.
	List(ctx context.Context, prefix string) ([]string, error)

	// Status asks the node how it is.
	Status(ctx context.Context) (Status, error)

	// Listen calls wake when a lock of name has ended through End, and each time
	// that it has begun to hear, first or again. News may get lost, and those of an
	// expiry never come. wake must not block. Listen returns at once, without an
	// error: who does not hear looks. stop ends it; wake may be called once more.
	Listen(name string, wake func()) (stop func())

	// Close frees what the node itself has opened.
	Close() error
}

// Teller is a Node that can tell of broken leases before they are extended.
type Teller interface {
	Node

	// Tell arranges that f is called when an Ending with News has ended the lock of a
	// lease that was proposed through this Node. f must not block. Tell is called
	// once, before anything else. What f would be told may get lost.
	Tell(f func(lease, news string))
}

// Mode is what a proposal may do where its lease does not have the lock.
type Mode int

const (
	Take   Mode = iota // take it if it is free
	Extend             // leave it alone
	Heal               // take it if it is free, and the token can be stored
)

// Proposal asks a node for the lock of a name.
//
// A token *can be stored* if it is greater than the floor's, or if it is equal and
// the floor's lease is this one. The node does, in one step:
//
//  1. If the lease is among the ended ones: nothing.
//  2. If Lease does not have the lock, and Mode is Extend, or the lock is not what
//     may be taken, which is a free one, or From's if there is a From: nothing.
//  3. If Lease does not have the lock and the node is closed, or Mode is Heal and the
//     token cannot be stored: nothing.
//  4. Otherwise Lease has the lock now: a new one, with this record, granted now and
//     without From's time; or the one that it had. It ends TTL from now, or when
//     it would have ended before, whichever is later.
//  5. If the token can be stored: it is, with Lease, in the floor and in the lock.
//
// So a lease may have the lock without its token being stored, and a proposal that
// comes twice does no more than come late.
type Proposal struct {
	Mode   Mode
	Name   string
	Lease  string // of this attempt; letters, digits and dots; never used again after End
	From   string // if not "", only the lock of this lease is taken over, not a free one
	Token  uint64 // positive
	TTL    time.Duration
	Record string // for people
}

// Vote is the answer to a Proposal.
type Vote struct {
	Run    string // of the node that has answered; "" if it has none
	Has    bool   // the lease has the lock
	Stored bool   // and the floor is exactly (Token, Lease)
	Lock   Lock   // as it is now, whoever has it

	Closed time.Duration // if positive, the node grants nothing new for so long
	Ended  bool          // the lease is among the ended ones
	News   string        // and this is what its holder should hear; may be ""
}

// Lock is the lock of one name as a node has it.
type Lock struct {
	Lease   string        // "" if it is free
	Token   uint64        // 0 if none was stored, or if the lock is of another library
	Record  string        // as proposed; "" if the lock is of another library
	Granted time.Time     // by the node's clock, for people; zero if not known
	Left    time.Duration // until it ends; negative if it does not
	Floor   uint64        // the floor's token, also if the lock is free
	Waiters int           // about how many listen to the name; 0 if not known
}

// Ending ends a lease at one node. The node does, in one step:
//
//  1. If Bar is set or there is News: Lease is among the ended ones from now on.
//     News that is there stays.
//  2. If Lease has the lock, it is free from now on, and those who listen are told.
//
// Bar is for who does not know whether a proposal may still come.
type Ending struct {
	Name  string
	Lease string
	Bar   bool
	News  string // who broke the lease and why; "" if its holder ends it
}

// Status is how a node is.
type Status struct {
	Addr   string
	Run    string        // the id of this run; "" if it has none
	Closed time.Duration // it grants nothing new for so long; 0 if it is open
	Err    error         // why it did not answer; the rest is not known then
}
