// SPDX-License-Identifier: Apache-2.0

// Package etcdlock keeps leases in an etcd cluster.
//
//	locks, err := etcdlock.Open(ctx, "etcd://h1:2379,h2:2379,h3:2379", nil)
//
// Each client that asks for a name creates a key below it. etcd orders the keys, and
// the first one holds the name. Its create revision times 4,096 is the fencing token;
// the numbers in between are reserved for hand-offs within the client, which need no
// request. A waiter watches the one key that is in its way, so a release wakes one
// waiter.
//
// Each lease has an etcd lease of its own, with its own TTL. So the cluster ends a
// lease that nobody renews. The client undoes an attempt whose answer was lost by
// revoking the etcd lease, also if the attempt is carried out later.
//
// # What counts as a renewal
//
// A member of etcd answers a keepalive without asking the others. A member that is
// cut off, or stuck on its disk, goes on answering after the others have elected
// another leader and ended the lease. So a renewal is a keepalive and then a
// linearizable read of the own key. It counts only if both answers have the same raft
// term: then the member that answered the keepalive was still the leader afterwards.
// Trust counts from the sending of the keepalive.
//
// docs/etcd-protocol.md describes the keys, docs/guarantees/etcd.md what holds under
// which assumption.
package etcdlock
