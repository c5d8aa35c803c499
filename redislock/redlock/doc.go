// SPDX-License-Identifier: Apache-2.0

// Package redlock keeps leases on N independent Redis masters, by the Redlock algorithm of
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/ with fencing
// tokens. It works while a minority of the masters is down, and needs no failover.
//
//	locks, err := redlock.Open(ctx, "redlock://r1:6379,r2:6379,r3:6379", nil)
//
// All clients have to name the same masters; docs/redlock-nodes.md says how the nodes check
// that, and how to change them. A lock of package redislock on one of the masters does not
// exclude a lock of this package: the two packages use different keys.
//
// # A lease
//
// The client reads its clock, sends one proposal to all N nodes at once, and counts the
// grants. It has the lease if a quorum, N/2+1, has granted it, and time is left:
//
//	TTL − elapsed since the clock was read − (TTL/100 + 2 ms) > 0
//
// It returns as soon as the result is certain. A node that is silent for a second, or for a
// third of the TTL if that is shorter, counts as a refusal. Once a quorum has answered, the
// other nodes have 50 ms or four round trips more. If the attempt fails, the client ends it
// at every node that may have granted it. If a node does not confirm the ending, the client
// sends it again when the node answers again. A node that has an ending for an unanswered
// proposal refuses that proposal if it arrives later.
//
// A renewal asks all nodes too. It counts only if a quorum grants it while the client still
// trusts the lease. A node that has lost the lock stores it again. Release returns when a
// quorum has answered.
//
// Two clients cannot both trust a lease: any two quorums share a node, and that node has
// one lock. It gives the lock to the second client only after the lock of the first client
// has ended there, in one of three ways:
//
//   - The TTL is over. It began after the first client had read its clock, so that client
//     no longer trusts its lease.
//   - The first client has released the lease.
//   - The node has forgotten the lock. It then grants nothing until every lease that it
//     may have forgotten has ended. Package redislock says how a node notices a restart.
//
// # Its token
//
// The nodes share no counter. The client proposes a token: its clock in microseconds, or
// one more than the largest token that it has seen if that is greater. Each node records
// the largest token that it has stored, and the lease that proposed it. It stores another
// token only if that token is greater, or if it is equal and the same lease proposes it.
// The lease has the token if a quorum has stored exactly this token for this lease while
// the lease had the lock there, and no answer reports a greater token. Usually one round
// trip is enough for lock and token. If some nodes know greater tokens, the client keeps
// its locks and proposes one more than the largest token in a second round.
//
// Why do tokens grow? If a client requests a lease after another lease was granted, the two
// quorums share a node. That node stored the second token after the first, so the second is
// greater. Two leases never have the same token, because a node stores a token for one
// lease only. None of this depends on clocks. If two clients request leases at the same
// time, the shared node gave its lock first to one lease and then to the other, with a
// greater token. By then the first client no longer trusted its lease, if the clocks run at
// the same rate.
//
// Growing tokens do depend on the memory of the nodes. A quorum of just more than half the
// nodes does not tolerate a node that forgets; docs/guarantees/redlock.md has the numbers
// for larger quorums. Tokens also follow the clock, and a node that has forgotten grants
// nothing for MaxTTL. So tokens still grow if the wall clocks of the clients differ by less
// than MaxTTL minus the TTLs in use.
//
// If clocks go wrong, another client may get the lock, with a greater token, while the
// first client still trusts its lease. The first client learns of it at its next renewal:
// a node that has stored a greater token does not give the lock back. The token of a failed
// attempt has no such effect, because the ending withdraws it.
//
// # Waiting
//
// Each node queues the waiters for exclusive leases, by the largest token that each waiter
// had seen when it joined. So all nodes that know the same waiters have them in the same
// order. A release is a hand-off: each node gives the released lock to its first waiter in
// the same step, with the token that the release brings. The node's message to the waiter
// is its vote. So a hand-off takes half a round trip to the nodes and half a round trip to
// the waiter. The waiter has the lock for a second, and renews it at once. It trusts the
// lease from the request that put it in the queue.
//
// A hand-off can fail, because messages are lost, a holder is gone, or nodes disagree about
// the first waiter. Then each waiter looks after a random time that grows with the number
// of waiters, and proposes if a quorum is free. While somebody holds the name, waiters do
// not propose: a proposal would take nodes that the holder has lost and wants back. If no
// waiter gets a quorum, all of them try again after a longer random time.
//
// A waiter for a shared lease is a listener at each node. When a lock ends, the node tells
// the listener, which then looks in the same way.
//
// # Readers
//
// A node has one exclusive lock of a name, or any number of shared ones. So a writer and a
// reader exclude each other as the two clients above do. A reader has its own token, by the
// same rule. The package refuses slots: a quorum that has granted one slot does not know
// all the others.
//
// A writer that waits and finds readers leaves a wish at each node. The node then refuses
// new readers until the writer has had the name, gives up, or has been silent for the
// shorter of its TTL and three seconds. docs/adr/0011 says why.
package redlock
