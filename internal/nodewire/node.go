// SPDX-License-Identifier: Apache-2.0

// Package nodewire is what Redlock asks of its masters. Package redlock has the real ones, and the simulator
// of package sim brings its own.
package nodewire

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
//   - the wishes: waiters for an exclusive lock while others share the name,
//     each with the time at which the wish ends by the node's clock;
//   - the ended leases: they may never have the lock again, each with the
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
	// differs from the address of every other node.
	Addr() string

	// Propose asks for a lock, or for more time. See Proposal.
	Propose(ctx context.Context, p Proposal) (Vote, error)

	// End ends what a lease has or may get. See Ending. It reports whether the
	// lease had a lock, and whether a waiter has it now.
	End(ctx context.Context, e Ending) (had, next bool, err error)

	// Enqueue puts a waiter in the queue, or takes it out, and returns the state of the
	// name after that. See Place.
	Enqueue(ctx context.Context, p Place) (State, error)

	// Want makes a wish, or takes it away, and returns the state of the name after
	// that. See Wish.
	Want(ctx context.Context, w Wish) (State, error)

	// Read returns the states of names, in the same order, and changes nothing. With queues they
	// say who is in the queues, if the node tells.
	Read(ctx context.Context, names []string, queues bool) ([]State, error)

	// List returns the names that begin with prefix and have a lock, in any order.
	List(ctx context.Context, prefix string) ([]string, error)

	// Status asks the node for its state.
	Status(ctx context.Context) (Status, error)

	// Tell makes the Node call f with messages about leases that were proposed or
	// enqueued through this Node. f must not block. Tell is called once, before
	// anything else. Messages to f may get lost, and an expiry sends none: a waiter that hears nothing looks.
	Tell(f func(Message))

	// Close frees what the node itself has opened.
	Close() error
}

// Message is what a node tells without being asked.
type Message struct {
	Lease  string // "" if messages may have been lost
	Broken bool   // an Ending with News has ended its lock
	News   string
	Token  uint64 // if not Broken: the lease was handed the lock, with this token; 0 if the name may be free
	Seq    int    // of the Place
	Run    string // of the node
}

// MaxToken is the largest token: scripts of a node cannot represent larger whole
// numbers.
const MaxToken = 1<<53 - 1

// Mode is what a proposal may do where its lease has no lock.
type Mode int

const (
	Take Mode = iota // take one if that is free
	Heal             // take one if that is free, and the lease was not overtaken
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
//  2. If Lease has no lock, and there is no lock to be taken:
//     nothing. To be taken is a free name's, and a shared one if others are shared.
//  3. If Lease has no lock and the node is closed, or Mode is Take, Shared is set and
//     there are wishes, or Mode is Heal and the lease is overtaken: nothing.
//  4. Otherwise Lease has a lock now: a new one, with this record, granted now; or the
//     one that it had. It ends TTL from now, or when
//     it would have ended before, whichever is later. All proposals of a lease have the
//     same Shared.
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
	Queued bool   // it may be in the queue, and leaves that with step 4
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
	Waiters int           // about how many wait for the name; 0 if not known
	Wishes  int           // how many there are
	Wished  time.Duration // until the last of them ends; 0 if there is none
	Queue   []Place       // of Read with queues: their Lease, Place and Record
	Ahead   int           // of Enqueue: how many are before the lease in the queue
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
//     the node tells the listeners. If it was exclusive and Held is set, all wishes end.
//  3. If Held is not set, and the floor is that of Lease: it does not stand any more. The
//     standing floors are again what they were before Lease stored a token.
//  4. If Next is set, Lease had an exclusive lock, and nobody listens: the first waiter of
//     the queue that can hear the node has the lock now, for the TTL of its Place, as if it
//     had proposed a token now: Next, or that of its Place if that is greater. The waiter
//     leaves the queue, and is told. That token must be one that can be stored, and the
//     node must be open. Otherwise the listeners are told, and the first of the queue,
//     which stays there.
//  5. If Lease was in the queue, it is no longer. If it had no lock, and nobody has one, the
//     others are told as under 2: it may have been told itself, and have given up.
//
// Bar is for a caller that does not know whether a proposal may still come.
type Ending struct {
	Name  string
	Lease string
	Bar   bool
	Held  bool   // the lease was granted; it is not what a failed attempt has left
	Next  uint64 // the token of the next lease, if the lock is to be handed to a waiter
	News  string // who broke the lease and why; "" if its holder ends it
}

// Place puts a waiter for an exclusive lock in the queue of a node, in the place of what
// there is of Lease, or takes it out. If Shared is set, the waiter wants a shared lock, and is among the listeners in place
// of the queue. All requests of a lease have the same Shared. The node does, in one step: if Lease is among the
// ended ones or has an exclusive lock: nothing. If For is 0 it takes Lease out of the queue.
// Otherwise Lease is in the queue for that long from now, until it has the lock that way
// or has ended. Of two waiters the one with the smaller Place is first, and of two
// with the same one that with the smaller Lease.
type Place struct {
	Name   string
	Lease  string // of the attempt that may get the lock
	Place  uint64 // the largest token that the waiter had seen when it came
	For    time.Duration
	Token  uint64        // that the waiter would propose now; the lease gets no smaller one
	Seq    int           // of the request; a message has the last that was carried out
	TTL    time.Duration // of the lock that it is handed
	Record string
	Shared bool
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
	Set    string        // of nodes that it serves: "quorum:id,id,id"; empty if no client has used it
	// Changing says to which nodes, and by whom, if the nodes are being changed: then it grants and renews nothing.
	Changing string
	SetBy    *driver.Holder
	Err      error // why it did not answer; the rest is not known then
}
