// SPDX-License-Identifier: Apache-2.0

// Package redlock keeps leases on N independent Redis masters, by the Redlock
// algorithm of https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
// with fencing tokens. It goes on while a minority of the masters is down, and
// needs no failover.
//
//	locks, err := redlock.Open(ctx, "redlock://r1:6379,r2:6379,r3:6379", nil)
//
// # A lease
//
// The client notes the instant, sends one proposal to all N at once, and counts. It
// has a lease if a quorum, N/2+1, has granted, and time is left:
//
//	TTL − elapsed since that instant − (TTL/100 + 2 ms) > 0
//
// It returns as soon as that is certain, either way. A node that does not answer
// within a small part of the TTL, or some round trips, counts as one that has refused. If there is no
// lease, whatever there is at any node is released at all of them, also where the
// answer was no or none; a node that does not hear of that is told when it answers
// again, and refuses proposals that come after it. Extension asks all nodes too, and
// counts only if a quorum says yes while the lease is still trusted; nodes of the
// minority that have lost the lock get it back. Release returns when a quorum has
// answered.
//
// Why two clients cannot both trust a lease: any two quorums share a node, and the
// node has one lock. It gives that to the second client only when the first one's
// has ended there, by its TTL, which began after the noted instant, so the first
// client has ceased to trust it before; or by release, after which it does not trust
// it; or because the node forgot it, after which it grants nothing until every
// forgotten lease has ended. See package redislock for how a restart is noticed.
//
// # Its token
//
// There is no counter that all share. The client proposes a token: its clock in
// microseconds, or one more than the largest it has seen if that is greater. A node
// keeps the largest token it has stored and for which lease, and stores another only
// if it is greater, or equal and of the same lease. The lease has the token if a
// quorum has stored exactly that, for exactly that lease, while it had the lock
// there, and no answer reports a greater one. Ordinarily one round trip does both. If some nodes know greater tokens,
// there is a second round with one more than the largest, by the same rule; the
// locks stay with the client meanwhile.
//
// Why tokens grow: a lease that is asked for when another one is known has a quorum
// that shares a node with the other's. That node stored its token after the other's,
// hence it is greater. Two leases cannot have the same token, as no node stores it
// for both. None of this depends on clocks. Of two leases that were asked for at the
// same time, the shared node gave its lock first to one and then to the other, with a
// greater token; the first was not trusted any more then, as long as clocks run
// at the same rate.
//
// It does depend on memory. A quorum of more than half the nodes tolerates no
// forgetful one; docs/guarantees/redlock.md has the numbers for larger quorums. But tokens
// follow the clock, and a node that has forgotten grants nothing for MaxTTL: tokens
// grow all the same if the clients' wall clocks agree within MaxTTL.
//
// A lease that others have overtaken, because clocks went wrong, learns that at its
// next renewal: where a greater token was stored it is not healed. Attempts that have
// failed overtake nobody: who ends one at a node takes its token out of that account.
//
// # Waiting
//
// Each node tells those who wait that a lock has ended. A waiter that is woken lets a random
// time pass that grows with the number of those who wait, looks whether a quorum is
// free, and only then proposes: to propose while somebody holds the name would take
// the nodes that the holder has lost and wants to heal. If nobody gets a quorum they
// try again after a random time, larger each time than a round has taken so far.
// There is no queue and no order between participants; those of one client are
// served in order.
//
// # Readers
//
// A node has one exclusive lock of a name, or any number of shared ones. So what was
// said of two clients holds for a writer and a reader: their quorums share a node,
// and that gives a lock to one of them only when the other's has ended. A reader has a
// token of its own, by the same rule. Slots are refused: a quorum that has given one
// does not know of all the others.
//
// A writer that waits and finds readers leaves a wish at each node, by which new
// readers are refused until it has had the name, gives up, or is not heard of for the
// shorter of its TTL and six seconds. docs/adr/0011 says why.
package redlock
