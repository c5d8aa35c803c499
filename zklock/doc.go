// SPDX-License-Identifier: Apache-2.0

// Package zklock keeps leases in ZooKeeper.
//
//	locks, err := zklock.Open(ctx, "zk://host1,host2,host3", nil)
//
// Each name has a node below the root. A client that asks for the name creates an ephemeral node below the name's
// node, and the servers number it. The nodes form a queue in the order of their numbers. The front of the queue
// holds the name: one writer, several readers, or up to n slots. Each other client watches only the nodes that
// must go before its turn can come, so a release wakes few clients. The servers delete a node when its session
// ends; then the lease ends too.
//
// The fencing token is made of the czxid of the name's node (the number of the transaction that created it) and
// the number of the lease's node: their sum, times 4,096. If an election came between the two nodes, it is made of the
// czxid of the lease's node. The client uses the tokens in between for hand-offs among its own goroutines, which
// need no request.
//
// # What is trusted
//
// The client does not trust the session state that package zk reports. A server that has lost its leader goes on
// answering pings and reads, while the other servers may have ended the session and granted the name again. So the
// client renews a lease with a transaction that changes nothing. A quorum carries out the transaction, and the
// leader refuses it if the session has ended. The client also watches the lease's node over the same connection,
// so it learns of a deletion before it gets the answer. One transaction renews all leases that are due.
//
// The client cannot trust a lease for the whole session timeout. The leader learns that a client is alive when it
// asks the client's server, every half tick, so it may count the timeout from before the last request. A lease is
// therefore trusted for two ticks and a few round trips less than its session lasts. The client makes several
// transactions within that margin. From them it computes the earliest instant from which the leader may count the
// timeout, even if the leader has paused.
//
// If the TTL is eight ticks or more, the session timeout is the TTL, so a crashed holder keeps others out for the
// TTL at most. If the TTL is shorter, the session lasts longer than the TTL. So does the session of leases that are
// not renewed, because their holders need the whole TTL.
//
// # TTL and sessions
//
// All leases with one TTL share a session. Leases that are not renewed share another one. A session lives as long
// as its client. When the TTL of a lease that is not renewed has passed, the client deletes the node; if the
// client is gone, the servers delete it at the end of the session. Acquire refuses a TTL that is longer than the
// servers' sessions allow, and Extend refuses a TTL that is too long for the lease's session.
//
// docs/zookeeper-protocol.md describes the nodes. docs/guarantees/zookeeper.md lists the guarantees and their
// assumptions.
package zklock
