// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Node is one of the N masters, as the algorithm sees it. The real one is Lua in
// a Redis server; a simulator may bring its own.
//
// Each of Propose, End, Want, Read, List and Status is one request and one reply, and
// the node carries a request out in one step. Nothing else connects the two sides: no
// call depends on an earlier one. Requests can fail as they do in networks:
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
//   - its locks: none, or the exclusive one of one lease, or shared ones of several.
//     Each has its token, record, the time of the grant by the node's clock, and the
//     time at which it ends by the node's clock; from then on there is none;
//   - the floor: the largest token stored so far and the lease that it was stored
//     for; (0, "") at first. It stands unless that lease was an attempt that failed.
//     And the standing floors: the largest token that stands, and the largest of those
//     that were stored for exclusive locks. They outlive the locks, for a day at least;
//   - the wishes: those who wait for an exclusive lock while others share the name,
//     each with the time at which the wish ends by the node's clock;
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

	// Propose asks for a lock, or for more time, or that it be shared. See Proposal.
	Propose(ctx context.Context, p Proposal) (Vote, error)

	// End ends what a lease has or may get. See Ending. It reports whether the
	// lease had a lock.
	End(ctx context.Context, e Ending) (had bool, err error)

	// Want makes a wish, or takes it away, and returns the state of the name after
	// that. See Wish.
	Want(ctx context.Context, w Wish) (State, error)

	// Read returns the states of names, in the same order, and changes nothing.
	Read(ctx context.Context, names []string) ([]State, error)

	// List returns the names that begin with prefix and have a lock, in any order.
	List(ctx context.Context, prefix string) ([]string, error)

	// Status asks the node for its state.
	Status(ctx context.Context) (Status, error)

	// Listen calls wake when the node notifies the listeners to name, and each time
	// that the subscription begins, for the first time or again. Messages may get lost,
	// and an expiry sends none. wake must not block. Listen returns at once, without an
	// error: a waiter that hears nothing looks. stop ends it; wake may be called once
	// more.
	Listen(name string, wake func()) (stop func())

	// Close frees what the node itself has opened.
	Close() error
}

// Teller is a Node that can report broken leases before their next extension.
type Teller interface {
	Node

	// Tell makes the Node call f when an Ending with News has ended the lock of a lease
	// that was proposed through this Node. f must not block. Tell is called once,
	// before anything else. Messages to f may get lost.
	Tell(f func(lease, news string))
}

// MaxToken is the largest token: scripts of a node cannot represent larger whole
// numbers.
const MaxToken = 1<<53 - 1

// Mode is what a proposal may do where its lease has no lock.
type Mode int

const (
	Take   Mode = iota // take one if that is free
	Extend             // leave it alone
	Heal               // take one if that is free, and the lease was not overtaken
)

// Proposal asks a node for a lock of a name.
//
// A token *can be stored* if it is greater than the floor's, or if it is equal and
// the floor's lease is this one. A lease is *overtaken* if its token is smaller than
// the standing floor or, if it wants to share, than that of writers: readers do not
// overtake one another, and attempts that have failed overtake nobody. A token larger than
// MaxToken is refused with an error, ErrUnavailable. The node does, in one step:
//
//  1. If the lease is among the ended ones: nothing.
//  2. If Lease has no lock, and Mode is Extend, or there is no lock to be taken:
//     nothing. To be taken is a free name's; a shared one if others are shared; and if
//     there is a From, an exclusive one from that lease, which has it, and nothing else.
//  3. If Lease has no lock and the node is closed, or Mode is Take, Shared is set and
//     there are wishes, or Mode is Heal and the lease is overtaken: nothing.
//  4. Otherwise Lease has a lock now: a new one, with this record, granted now and
//     without From's time; or the one that it had. It ends TTL from now, or when
//     it would have ended before, whichever is later. If it is exclusive and Shared is
//     set it becomes a shared one, all wishes end, and those who listen are told. A
//     shared one stays shared.
//  5. If the token can be stored: it is, with Lease, in the floor and in the lock, and it
//     stands until Lease ends as an attempt that has failed. If the Mode is not Take it is
//     in the lock in any case: the lease was granted with it.
//
// So a lease may have a lock although its token is not stored, and a proposal that
// comes twice has the effect of one that comes late.
type Proposal struct {
	Mode   Mode
	Name   string
	Shared bool
	Lease  string // of this attempt; letters, digits and dots; never used again after End
	From   string // if not "", only the lock of this lease is taken over, not a free one
	Token  uint64 // positive
	TTL    time.Duration
	Record string // for people
}

// Vote is the answer to a Proposal.
type Vote struct {
	Run    string // of the node that has answered; "" if it has none
	Has    bool   // the lease has a lock
	Stored bool   // and the floor is exactly (Token, Lease); Writer is not told then
	State         // as it is now; without the locks if the lease has one

	Closed time.Duration // if positive, the node grants nothing new for this long
	Ended  bool          // the lease is among the ended ones
	News   string        // and this is the news for its holder; may be ""
}

// State is the state of a name at a node.
type State struct {
	Locks   []Lock        // none, an exclusive one, or shared ones; of many, Read alone returns more than the 16 that end last
	Floor   uint64        // the floor's token, also if there is no lock
	Writer  uint64        // the standing floor of writers
	Waiters int           // about how many listen to the name; 0 if not known
	Wishes  int           // how many there are
	Wished  time.Duration // until the last of them ends; 0 if there is none
}

// Lock is a lock of one name as a node has it.
type Lock struct {
	Lease   string
	Shared  bool
	Token   uint64        // 0 if none was stored, or if the lock is of another library
	Record  string        // as proposed; "" if the lock is of another library
	Granted time.Time     // by the node's clock, for people; zero if not known
	Left    time.Duration // until it ends; negative if it does not
}

// Ending ends a lease at one node. The node does, in one step:
//
//  1. If Bar is set or there is News: Lease is among the ended ones from now on.
//     News that is there stays.
//  2. If Lease has a lock, it has none from now on. If no other lease has one either,
//     those who listen are told. If it was exclusive and Held is set, all wishes end.
//  3. If Held is not set, and the floor is that of Lease: it does not stand any more. The
//     standing floors are again what they were before Lease stored a token.
//
// Bar is for a caller that does not know whether a proposal may still come.
type Ending struct {
	Name  string
	Lease string
	Bar   bool
	Held  bool   // the lease was granted; it is not what a failed attempt has left
	News  string // who broke the lease and why; "" if its holder ends it
}

// Wish is the intent of a waiter for an exclusive lock of a name that is shared. As
// long as there is one, the node gives no shared lock to newcomers, so the readers
// become fewer until the writer can have the name. The node does, in one step: if For
// is positive, the wish made by Who ends For from now. Otherwise the wish is taken
// away, and if it was the last one the listeners are notified.
//
// All wishes end when a writer has had the name (see Ending and Proposal). A writer
// that comes to wait then makes none unless it finds readers. So waiting readers get
// their turn between writers that follow each other.
type Wish struct {
	Name string
	Who  string // the waiter; of the letters of leases
	For  time.Duration
}

// Status is the state of a node.
type Status struct {
	Addr   string
	Run    string        // the id of this run; "" if it has none
	Closed time.Duration // for how much longer it grants nothing new; 0 if it is open
	MaxTTL time.Duration // on which the clients of the node have agreed; 0 if none is known
	ID     string        // by which the node is known, whatever its address; empty if it has no record
	Sets   []string      // of nodes that clients may use: "quorum:id,id,id"
	SetBy  *driver.Holder
	Err    error // why it did not answer; the rest is not known then
}
