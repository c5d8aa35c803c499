// SPDX-License-Identifier: Apache-2.0

// Package redislock keeps leases in one Redis or Valkey server, or in a cluster.
//
//	locks, err := redislock.Open(ctx, "redis://localhost:6379", nil)
//
// A lock is one string, written as SET key value NX PX ttl would, so that one GET
// explains it, and libraries in other languages that lock the same key with SET NX
// exclude this one and are excluded. Acquiring, renewing and releasing take one
// round trip each, in scripts that do no harm when they are repeated.
//
// # Waiting
//
// Waiters stand in a queue in the server. The script that ends a lease gives the
// lock to the first waiter in the same step, and sends a message to its client;
// a waiter whose client does not listen any more is passed over at once, and one
// that does not answer, after a second. In case a message is lost, waiters also look:
// the first in the queue every two seconds, those behind it less often, down to once a minute.
//
// Readers and writers, and those who want slots, stand in the same queue: who follow
// each other and fit together are granted the lock together, and nobody is overtaken.
// Leases that are held together are a sorted set in the place of the string.
//
// # A restart cannot give a lock away
//
// A server without persistence that restarts has forgotten who holds what. So the
// scripts carry the run_id of the server that they were loaded into. Redis drops
// its scripts when it restarts: the first request after that is refused, and the
// client notices. Then the server grants nothing until every lease that it may
// have forgotten has ended, for the MaxTTL on which all clients have agreed at the store; renewals go on. The same
// holds after FLUSHALL and when data was lost in another way, since the scripts
// grant only while the record of this run is there; and after a failover, since a
// replica may lack what its master granted last, or when another server is behind
// the same address. A server that has just started lets its first user wait, too;
// see Bless.
//
// # Clusters
//
// A lock is in one master of a cluster, and so is all that belongs to it. Leases are
// renewed while their hash slot moves to another node; all else waits until it has.
// Each slot is guarded for itself: where it has moved, or its data was lost, nothing
// is granted in it for MaxTTL. A master that hangs holds up only what it has.
//
// The exact layout is described in docs/redis-protocol.md, what holds under which
// assumption in docs/guarantees/redis.md.
package redislock
