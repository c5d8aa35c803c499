// SPDX-License-Identifier: Apache-2.0

// Package nodewire defines what Redlock asks of its masters. Package redlock implements it on Redis servers,
// and package sim implements it in a simulator.
package nodewire

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Node is one of the N masters, as the algorithm sees it.
//
// Each of Propose, End, Enqueue, Read, List and Status is one request and one
// reply, and the node carries out a request in one step. The node keeps no connection
// state: no call depends on an earlier one. Requests can fail as they do in networks:
//
//   - An error that is driver.ErrUnavailable says that the node has not carried out
//     the request and never will.
//   - After any other error, including an error of a context, the node may have carried
//     out the request, may do so later, even after a later request of the same caller,
//     or may never do so.
//
// All methods are safe for concurrent use, and return soon after ctx has ended.
//
// # State
//
// A node keeps for each name
//
//   - the locks: none, one exclusive lock, or the shared locks of several leases. Each
//     lock has a token, a record, the time of the grant, and the time at which it ends;
//     then the lock is gone;
//   - the floor: the largest token stored so far, and the lease that it was stored for;
//     (0, "") at first. The token stands unless its lease was an attempt that failed;
//   - the standing floors: the largest token that stands, and the largest token that
//     stands and was stored for an exclusive lock. All floors outlive the locks by at
//     least a day;
//   - the wishes of waiters for an exclusive lock while others share the name, each with
//     the time at which the wish ends;
//   - the ended leases: these can never have a lock again. Each has the news for its
//     holder. The node remembers them for the longest TTL in use, and at least as long
//     as a request may be under way: five minutes.
//
// All times are by the node's clock. For itself the node keeps the id of its run, which a
// restart or a loss of data changes, and the time until which it is closed. A node that
// may have forgotten locks grants nothing new until all these locks have ended: for the
// longest TTL in use, from its start or from the moment at which it noticed the loss.
// Meanwhile it extends the locks that it has.
type Node interface {
	// Addr returns the name of the node for people. It never changes, contains no
	// password, and differs from the name of every other node.
	Addr() string

	// Propose asks for a lock, or for more time for a lock. See Proposal.
	Propose(ctx context.Context, p Proposal) (Vote, error)

	// End ends what a lease has or may get. See Ending. had reports whether the lease
	// had a lock, and next whether a waiter has that lock now.
	End(ctx context.Context, e Ending) (had, next bool, err error)

	// Enqueue puts a waiter in the queue. It returns the state of the name after that.
	// See Place.
	Enqueue(ctx context.Context, p Place) (State, error)

	// Read returns the states of names with their queues, in the order of names, and changes nothing.
	Read(ctx context.Context, names []string) ([]State, error)

	// List returns the names that begin with prefix and have a lock, in any order.
	List(ctx context.Context, prefix string) ([]string, error)

	// Status asks the node for its state.
	Status(ctx context.Context) (Status, error)

	// Tell makes the Node call f with messages about leases that were proposed or
	// enqueued through this Node. f must not block. Call Tell once, before all other
	// methods. Messages may get lost, and a lock that expires sends none; so a waiter
	// without a message has to look.
	Tell(f func(Message))

	// Close frees what the Node itself has opened.
	Close() error
}

// Message is what a node tells a client without a request.
type Message struct {
	Lease  string // "" if messages may have been lost
	Broken bool   // an Ending with News has ended its lock
	News   string
	Token  uint64 // if not Broken: the node has handed the lock to the lease, with this token; 0 if the name may be free
	Seq    int    // of the waiter's Place
	Run    string // of the node
}

// MaxToken is the largest token: larger whole numbers are not exact in the scripts of a
// node.
const MaxToken = 1<<53 - 1

// Mode says what a proposal may do if its lease has no lock.
type Mode int

const (
	Take Mode = iota // take a lock if one is free
	Heal             // take a lock if one is free, and the lease was not overtaken
)

// Proposal asks a node for a lock of a name.
//
// A token *can be stored* if it is greater than the token of the floor, or if it is equal
// and the floor was stored for the same lease. A lease is *overtaken* if its token is
// smaller than the standing floor; a shared lease only if its token is smaller than the
// standing floor of writers. So readers do not overtake one another, and failed attempts
// overtake nobody. A token larger than MaxToken gets an error, ErrUnavailable. Otherwise
// the node does, in one step:
//
//  1. If Lease is among the ended ones: nothing.
//  2. If Lease has no lock and can take none: nothing. It can take the lock of a free
//     name. A shared lease can also join other shared locks.
//  3. If Lease has no lock: nothing, if the node is closed; or if Mode is Take, Shared is
//     set and there are wishes; or if Mode is Heal and the lease is overtaken.
//  4. Otherwise Lease has a lock now: a new one, with this record, granted now; or the
//     one that it had. The lock ends TTL from now, or when it would have ended before,
//     whichever is later. All proposals of a lease have the same Shared.
//  5. If the token can be stored: the floor and the lock get the token. It stands until
//     Lease ends as an attempt that has failed. If Mode is Heal, the lock gets the token
//     in any case, because the lease was granted with it.
//
// So a lease may have a lock although its token is not stored. A proposal that arrives
// twice has the effect of a proposal that arrives late.
type Proposal struct {
	Mode   Mode
	Name   string
	Shared bool
	Lease  string // of this attempt; letters, digits and dots; never used again after End
	Queued bool   // Lease may be in the queue, and leaves it with step 4
	Token  uint64 // positive
	TTL    time.Duration
	Record string // for people
}

// Vote is the answer to a Proposal.
type Vote struct {
	Run    string // of the node that has answered; "" if it has none
	Has    bool   // the lease has a lock
	Stored bool   // the lease has a lock, and the floor is exactly (Token, Lease); Writer is not set then
	State         // of the name now; without Locks if the lease has a lock

	Closed time.Duration // if positive, the node grants nothing new for this long
	Ended  bool          // the lease is among the ended ones
	News   string        // of an ended lease: the news for its holder; may be ""
}

// State is the state of a name at a node.
type State struct {
	Locks   []Lock        // none, an exclusive one, or shared ones: with Read all, else the 16 that end last
	Floor   uint64        // the floor's token, also if there is no lock
	Writer  uint64        // the standing floor of writers
	Waiters int           // about how many wait for the name; 0 if not known
	Wishes  int           // how many wishes there are
	Wished  time.Duration // until the last wish ends; 0 if there is none
	Queue   []Place       // of Read: Lease, Place and Record of each waiter for an exclusive lock
	Ahead   int           // of Enqueue: how many waiters are before the lease in the queue
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
//  1. If Bar is set or there is News: Lease is among the ended ones from now on. If it
//     has news already, that stays.
//  2. If Lease has a lock, it loses the lock. If the lock was exclusive and Held is set,
//     all wishes end. If the name is free now, the node wakes waiters: it tells the
//     listeners and the first waiter of the queue that the name may be free.
//  3. If Held is not set, and the floor was stored for Lease: its token does not stand any
//     more. The standing floors are again what they were before Lease stored a token.
//  4. If Next is set, Lease had an exclusive lock, and there are no listeners: instead of
//     waking waiters, the node hands the lock over. The first waiter of the queue that can
//     hear the node has the lock now, for the TTL of its Place, as if it had proposed a
//     token now: the greater one of Next and the Token of its Place. The waiter leaves the
//     queue, and the node tells it. If the token cannot be stored, or the node is closed,
//     the node wakes waiters as under 2, and the first waiter stays in the queue.
//  5. If Lease was waiting, it leaves the queue or the listeners, and its wish ends. If it
//     had no lock, the node wakes waiters as under 2 if the name is free, as it may have told
//     Lease so, or if this was the last wish.
//
// Bar is for a caller that does not know whether a proposal may still arrive.
type Ending struct {
	Name  string
	Lease string
	Bar   bool
	Held  bool   // the lease was granted; not set for a failed attempt
	Next  uint64 // the token of the next lease; 0 to hand nothing over
	News  string // who broke the lease and why; "" if its holder ends it
}

// Place puts a waiter for an exclusive lock in the queue of a node. It replaces an earlier
// Place of Lease. If Shared is set, the waiter wants a shared lock, and is a listener
// instead. All requests of a lease have the same Shared. The node does, in one step:
//
//  1. If Lease is among the ended ones or has an exclusive lock: nothing.
//  2. Otherwise Lease is in the queue for this long from now, or until the node has handed
//     the lock to it, or until it has ended. The queue is in the order of Place; waiters
//     with the same Place are in the order of Lease.
//  3. If Wish is positive, the wish of Lease ends Wish from now. It says that the waiter wants
//     an exclusive lock of a name that others share. While there is a wish, the node gives no
//     shared lock to newcomers. So the readers become fewer, until the writer can have the
//     name.
//
// All wishes end when a writer has had the name (see Ending). A writer that begins to
// wait after that makes no wish unless it finds readers. So waiting readers get their
// turn between two writers.
type Place struct {
	Name   string
	Lease  string // of the attempt that may get the lock
	Place  uint64 // the largest token that the waiter had seen when it came
	For    time.Duration
	Token  uint64        // the waiter would propose it now; the lease gets no smaller one
	Seq    int           // the number of the request; a message has the last one that the node carried out
	TTL    time.Duration // of a lock that the node hands to the waiter
	Record string
	Shared bool
	Wish   time.Duration
}

// Status is the state of a node.
type Status struct {
	Addr   string
	Run    string        // the id of this run; "" if it has none
	Closed time.Duration // how much longer it grants nothing new; 0 if it is open
	MaxTTL time.Duration // on which the clients of the node have agreed; 0 if unknown
	ID     string        // of the node, whatever its address; empty if it has no record
	Set    string        // the set of nodes that it serves: "quorum:id,id,id"; empty if no client has used it
	// Changing names the new nodes, and who changes the nodes. It is empty unless a change is under way; during a
	// change the node grants and renews nothing.
	Changing string
	SetBy    *driver.Holder // who has set MaxTTL; nil if unknown
	Err      error          // why it did not answer; the other fields are unknown then
}
