// SPDX-License-Identifier: Apache-2.0

// Package etcdlock keeps leases in an etcd cluster.
//
//	locks, err := etcdlock.Open(ctx, "etcd://h1:2379,h2:2379,h3:2379", nil)
//
// Whoever wants a name puts a key of its own beside those of the others. The keys
// are in the order in which etcd created them, and the first holds the name; the
// create revision of its key, times 4,096, is its fencing token. Those in between are
// for the waiters of the same client, among whom a lease goes round without a word to
// the cluster. A waiter watches the one key that is in its way, so a release wakes one
// waiter however many there are.
//
// Each lease has an etcd lease of its own, with its own TTL, so that the cluster
// ends what nobody renews, and revoking it undoes an attempt whose answer was
// lost, also one that is carried out late.
//
// # What counts as a renewal
//
// A member of etcd answers a keepalive without asking the others. One that is cut
// off, or stuck on its disk, goes on answering while the rest of the cluster has
// elected another leader and ended the lease. So a renewal is a keepalive and,
// after it, a linearizable read of the own key, and it counts only if both answers
// are of one raft term: then the leader that was asked to keep the lease alive
// still was the leader afterwards. Trust runs from the sending of the keepalive.
//
// The exact layout is described in docs/etcd-protocol.md, what holds under which
// assumption in docs/guarantees/etcd.md.
package etcdlock
