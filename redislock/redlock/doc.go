// SPDX-License-Identifier: Apache-2.0

// Package redlock keeps leases on N independent Redis masters, by the Redlock algorithm of
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/ with fencing
// tokens. It goes on while a minority of the masters is down, and needs no failover.
//
//	locks, err := redlock.Open(ctx, "redlock://r1:6379,r2:6379,r3:6379", nil)
//
// All clients have to name the same masters; docs/redlock-nodes.md says how the nodes check
// that, and how to change them. A lock of package redislock on one of the masters does not
// exclude a lock of this package: it has other keys.
//
// # A lease
//
// The client notes the instant, sends one proposal to all N nodes at once, and counts. It
// has a lease if a quorum, N/2+1, has granted it, and time is left:
//
//	TTL − elapsed since that instant − (TTL/100 + 2 ms) > 0
//
// It returns as soon as the result is certain. A node that is silent for a second, or for a
// third of the TTL if that is shorter, counts as a refusal; once a quorum has answered, a
// node has only 50 ms or four round trips more. Without a lease, the client ends
// the attempt at all nodes, also at those that refused or did not answer. If a node cannot
// be reached, the client repeats that when the node answers again. From then on the node
// refuses late proposals of the attempt.
//
// A renewal asks all nodes too. It counts only if a quorum grants it while the lease is
// still trusted; nodes of the minority that have lost the lock get it back. Release returns
// when a quorum has answered.
//
// Two clients cannot both trust a lease, because any two quorums share a node, and that
// node has one lock. It gives the lock to the second client only when the lock of the first
// has ended there: by its TTL, which began after the instant that the first client noted,
// so that the first client no longer trusts its lease; by release; or because the node
// forgot it, and then the node grants nothing until every forgotten lease has ended. See
// package redislock for how a node notices a restart.
//
// # Its token
//
// There is no shared counter. The client proposes a token: its clock in microseconds, or
// one more than the largest token that it has seen if that is greater. A node keeps the
// largest token that it has stored and for which lease. It stores another one only if that
// is greater, or equal and of the same lease. The lease has the token if a quorum has
// stored exactly this token for this lease while it had the lock there, and no answer
// reports a greater one. Usually one round trip is enough for lock and token. If some nodes
// know greater tokens, there is a second round with one more than the largest, by the same
// rule; the client keeps the locks meanwhile.
//
// Tokens grow for this reason. If a lease is requested after another one was granted, their
// quorums share a node. That node stored the second token after the first, so the second is
// greater. Two leases cannot have the same token, because no node stores it for both. None
// of this depends on clocks. If two leases were requested at the same time, the shared node
// gave its lock first to one and then to the other, with a greater token. By then the first
// lease was no longer trusted, if clocks run at the same rate.
//
// But it depends on the memory of the nodes. A quorum of just more than half the nodes does
// not tolerate a node that forgets; docs/guarantees/redlock.md has the numbers for larger
// quorums. Tokens also follow the clock, and a node that has forgotten grants nothing for
// MaxTTL. So tokens still grow if the wall clocks of the clients agree within the
// difference of MaxTTL and the TTLs in use.
//
// If clocks go wrong and another lease overtakes this one, its holder learns that at the
// next renewal: a node that stored a greater token does not give the lock back. A failed
// attempt overtakes no lease, because its ending withdraws its token.
//
// # Waiting
//
// Each node has a queue for exclusive leases, ordered by the largest token that each waiter
// had seen when it came: the same order at all nodes that know the same waiters. A release
// hands over. Each node gives the released lock to the first waiter in the same step, with
// the token that the release brings, and the message to the waiter is its vote. So a
// hand-off takes half a round trip to the nodes and half a round trip to the waiter. The
// waiter has the lock for a second and renews it at once. Its trust counts from the request
// with which it joined the queue.
//
// A hand-off can fail, because messages are lost, a holder is gone, or nodes disagree about
// the first waiter. Then waiters look, after a random time that grows with the number of
// waiters, and propose if a quorum is free. They do not propose while the name is held:
// that would take nodes that the holder has lost and wants back. If no waiter gets a quorum
// they try again after a longer random time.
//
// A waiter for a shared lease is a listener at each node: it is notified of the end of a lock, and
// then looks in this way.
//
// # Readers
//
// A node has one exclusive lock of a name, or any number of shared ones. So a writer and a
// reader exclude each other like two clients above. A reader has a token of its own, by the
// same rule. Slots are refused: a quorum that has granted one does not know all the others.
//
// A writer that waits and finds readers leaves a wish at each node. The node then refuses
// new readers until the writer has had the name, gives up, or has been silent for the
// shorter of its TTL and three seconds. docs/adr/0011 says why.
package redlock
