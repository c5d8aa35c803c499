// SPDX-License-Identifier: Apache-2.0

// Package zklock keeps leases in ZooKeeper.
//
//	locks, err := zklock.Open(ctx, "zk://host1,host2,host3", nil)
//
// A name is a node below the root. Each client that asks for the name creates an
// ephemeral node below that, whose number the servers assign. The nodes at the front
// that may hold the name together hold it: one writer, readers, or n slots. Each other
// client watches the few nodes that must go before it, so no release wakes a client in
// vain. A node ends with its session, and so does the lease.
//
// The token is the number of the transaction that created the name's node, its czxid,
// plus the number of the lease's node, times 4,096. The numbers in between are reserved
// for hand-offs within the client, which need no request.
//
// # What is trusted
//
// The state of the session, as package zk reports it, proves nothing. A server that has
// lost its leader goes on answering pings and reads after the others have ended the
// session and granted the name again. So a lease is renewed by a transaction that
// changes nothing: a quorum carries it out, and the leader refuses it after the session
// has ended. A watch on the node, over the same connection, reports a deletion before
// the answer. One transaction renews all leases that are due.
//
// The session timeout is not the time for which a lease can be trusted. The leader
// learns of a client only when it asks the client's server, every half tick, so its
// timeout may have begun earlier than the last request. A lease is therefore trusted
// for two ticks and some requests less than its session lasts. The client makes several
// transactions within that margin, and trusts one only from when the leader must have
// heard of an earlier one, even if the leader has paused since. From eight ticks up the
// session lasts for the TTL, so a crashed holder keeps others out for no longer. For a
// shorter TTL, and for leases that are not renewed and need all of theirs, it lasts
// longer.
//
// # TTL and sessions
//
// All leases with one TTL share a session; leases that are not renewed have another
// one. A session lives as long as its client. The client ends a lease that is not
// renewed when its TTL has passed; if the client is gone, the servers end it with the
// session. A TTL that is longer than the servers' sessions is refused, and so is a
// renewal with a TTL that is longer than the session's.
//
// docs/zookeeper-protocol.md describes the nodes, docs/guarantees/zookeeper.md what
// holds under which assumption.
package zklock
