// SPDX-License-Identifier: Apache-2.0

// Package redlock keeps leases on N independent Redis masters, by the Redlock
// algorithm of https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
// with fencing tokens. It goes on while a minority of the masters is down, and
// needs no failover.
//
//	locks, err := redlock.Open(ctx, "redlock://r1:6379,r2:6379,r3:6379", nil)
//
// All clients have to name the same masters; docs/redlock-nodes.md says what the nodes do
// about that, and how they are changed. Package redislock on one of the masters does not
// exclude this one: it has other keys.
//
// # A lease
//
// The client records the instant, sends one proposal to all N nodes at once, and
// counts. It has a lease if a quorum, N/2+1, has granted, and time is left:
//
//	TTL − elapsed since that instant − (TTL/100 + 2 ms) > 0
//
// It returns as soon as that is certain, either way. A node that answers nothing for a
// second, or for a third of the TTL if that is shorter, counts as one that has refused. If
// there is no lease, the client releases the attempt at all nodes, also at those that
// refused or did not answer. A node that the release does not reach is told when it
// answers again, and then refuses late proposals of the attempt.
//
// Extension asks all nodes too, and counts only if a quorum grants it while the lease
// is still trusted; nodes of the minority that have lost the lock get it back. Release
// returns when a quorum has answered.
//
// Two clients cannot both trust a lease because any two quorums share a node, and that
// node has one lock. It gives the lock to the second client only when the first
// client's has ended there: by its TTL, which began after the recorded instant, so that
// the first client no longer trusts it; by release, after which the client does not
// trust it; or because the node forgot it, and then the node grants nothing until every
// forgotten lease has ended. See package redislock for how a restart is noticed.
//
// # Its token
//
// There is no shared counter. The client proposes a token: its clock in microseconds,
// or one more than the largest it has seen if that is greater. A node keeps the largest
// token it has stored and for which lease, and stores another only if it is greater, or
// equal and of the same lease. The lease has the token if a quorum has stored exactly
// that, for exactly that lease, while it had the lock there, and no answer reports a
// greater one. Ordinarily one round trip is enough for both. If some nodes know greater
// tokens, there is a second round with one more than the largest, by the same rule; the
// client keeps the locks meanwhile.
//
// Tokens grow for this reason: a lease that is requested when another one is known has
// a quorum that shares a node with the other's. That node stored its token after the
// other's, hence it is greater. Two leases cannot have the same token, as no node
// stores it for both. None of this depends on clocks. Of two leases that were requested
// at the same time, the shared node gave its lock first to one and then to the other,
// with a greater token. The first was no longer trusted then, as long as clocks run at
// the same rate.
//
// But it depends on the nodes' memory. A quorum of just more than half the nodes does
// not tolerate a node that forgets; docs/guarantees/redlock.md has the numbers for
// larger quorums. But tokens follow the clock, and a node that has forgotten grants
// nothing for MaxTTL: so tokens still grow if the clients' wall clocks agree to within
// what MaxTTL is longer than the TTLs in use.
//
// If others have overtaken a lease, because clocks went wrong, its holder learns that
// at the next renewal: a node where a greater token was stored does not give the lock
// back. An attempt that has failed does not overtake a lease: its ending takes its
// token out of that account.
//
// # Waiting
//
// Each node has a queue of those that wait for an exclusive lease, in the order of the
// largest tokens that they had seen when they came: the same order at all nodes, as far as
// they have heard of the same waiters. A release hands over: each node that has the
// released lock gives it to the first of its queue, in the same step, with the token that
// the release brings, and the message to the waiter is its vote. So a hand-off takes half a
// trip to the nodes and half a trip to the waiter. The waiter has the lock for a second and renews
// it at once. Its trust counts from the moment at which it asked to be in the queue.
//
// Where that fails, since messages are lost, a holder is gone, or nodes disagree about who
// is first, waiters look whether a quorum is free, after a random time that grows with the
// number of waiters, and then propose: a proposal while somebody holds the name would take
// the nodes that the holder has lost and wants back. If no waiter gets a quorum they
// try again after a random time, larger each time than a round has taken so far.
//
// Waiters that share are told of the end of a lock, and then do the same.
//
// # Readers
//
// A node has one exclusive lock of a name, or any number of shared ones. So a writer
// and a reader exclude each other like two clients above: their quorums share a node,
// which gives a lock to one of them only when the other's has ended. A reader has a
// token of its own, by the same rule. Slots are refused: a quorum that has granted one
// does not know all the others.
//
// A writer that waits and finds readers leaves an intent, called a wish, at each node.
// The node then refuses new readers until the writer has had the name, gives up, or has
// been silent for the shorter of its TTL and three seconds. docs/adr/0011 says why.
package redlock
