// SPDX-License-Identifier: Apache-2.0

// Package etcdlock keeps leases in an etcd cluster.
//
//	locks, err := etcdlock.Open(ctx, "etcd://h1:2379,h2:2379,h3:2379", nil)
//
// Each client that asks for a name creates a key below the name. etcd orders the keys, and the first one holds the
// name. The fencing token is the create revision of that key, times 4,096. The client uses the tokens in between
// for hand-offs among its own goroutines, which need no request. A waiter watches the one key that is in its way,
// so a release wakes one waiter.
//
// Each lease has an etcd lease with the lease's TTL. If nobody renews it, the cluster deletes the key. If a
// request for a lease has no answer, the client revokes the etcd lease. This also undoes a request that is carried
// out later.
//
// # What counts as a renewal
//
// A member of etcd answers a keepalive without asking the others. A member that is cut off, or whose disk hangs,
// goes on answering after the others have elected another leader and ended the lease. So a renewal is a keepalive
// and then a linearizable read of the lease's key. The renewal counts only if both answers have the same raft
// term. Then the member that answered the keepalive was still the leader when it answered the read. Trust counts
// from the sending of the keepalive.
//
// docs/etcd-protocol.md describes the keys. docs/guarantees/etcd.md lists the guarantees and their assumptions.
package etcdlock
