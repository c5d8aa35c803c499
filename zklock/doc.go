// SPDX-License-Identifier: Apache-2.0

// Package zklock keeps leases in ZooKeeper.
//
//	locks, err := zklock.Open(ctx, "zk://host1,host2,host3", nil)
//
// A name is a node below the root, and who wants it makes an ephemeral node in it,
// whose number the servers assign. The longest part at the front of the queue that
// may be held together holds the name: one writer, readers, or n slots. Everybody
// else watches the few nodes before it that must go first, and nobody is woken in
// vain. The node dies with the session, and so does the lease.
//
// The token is the number of the transaction that made the node, its czxid, times 4,096.
// Those in between are for the waiters of the same client, among whom a lease goes round
// without a word to the servers.
//
// # What is trusted
//
// Not what package zk says of the state of the session. A server that has lost its
// leader goes on answering pings and reads while the others have long ended the
// session and given the lock away. A lease is renewed by a transaction that changes
// nothing: a quorum has to carry it out, and the leader refuses it when the session has
// ended. A watch on the node, over the same connection, would tell of a deletion before
// the answer. So one transaction renews all leases that are due at the time.
//
// Nor is the session timeout the time for which a lease can be trusted from there. The
// server that a client is connected to tells the leader that the client lives only
// when it is asked, every half tick; so the leader's count may have begun earlier.
// A lease is therefore trusted for less than the session lasts: for two ticks less, and some
// requests. The client has a quorum carry out something several times within that margin,
// and trusts a transaction only from when the leader must have heard of an earlier one,
// even if it has paused since. From eight ticks up the session lasts for the TTL, so that a
// holder that is killed keeps others out for no longer. For a shorter TTL, and for leases that
// are not renewed, which need all of theirs, it lasts longer.
//
// # TTL and sessions
//
// All leases with one TTL are in one session, but for those that are not renewed, which are in
// another. It lives on while there is a client. A lease that is not renewed is ended by the
// client when its TTL has passed; if the client is not there any more, by the servers when the
// session has ended. A TTL that is longer than the servers' sessions is refused, and so is a
// renewal for a TTL that is longer than the session's.
//
// The exact layout is described in docs/zookeeper-protocol.md, what holds under which
// assumption in docs/guarantees/zookeeper.md.
package zklock
