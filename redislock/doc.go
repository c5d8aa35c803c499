// SPDX-License-Identifier: Apache-2.0

// Package redislock keeps leases in one Redis or Valkey server, or in a cluster.
//
//	locks, err := redislock.Open(ctx, "redis://localhost:6379", nil)
//
// A lock is one string, written as SET key value NX PX ttl would. So one GET shows the
// holder, and libraries in other languages that lock the same key with SET NX exclude
// this one and are excluded by it. Acquiring, renewing and releasing take one round
// trip each, in scripts that can be repeated safely.
//
// # Waiting
//
// Waiters are in a queue on the server. The script that ends a lease gives the lock to
// the first waiter in the same step, and sends a message to its client. It skips a waiter
// whose client does not listen. A waiter that does not react loses its turn after a
// second. A message may be lost, so every waiter also looks every two seconds.
//
// Readers, writers and waiters for slots stand in the same queue. Waiters that follow
// each other and fit together are granted the lock together, and none is overtaken.
// Leases that are held together are a sorted set in the place of the string.
//
// # A restart cannot give a lock away
//
// A server without persistence forgets all leases when it restarts. So the scripts
// carry the run_id of the server that they were loaded into. Redis drops its scripts
// when it restarts: it refuses the first request after that, and the client notices.
// Then a quarantine begins: the server grants nothing for MaxTTL, on which all clients
// have agreed at the store, until every lease that it may have forgotten has ended.
// Renewals go on.
//
// The same holds after FLUSHALL and any other loss of data, since the scripts grant
// only while the record of this run is there. It holds after a failover, since a
// replica may lack what its master granted last, and when another server is behind the
// same address. The first client of a server that has just started waits too; see
// Bless.
//
// # Clusters
//
// A lock is in one master of a cluster, and so is all that belongs to it. Leases are
// renewed while their hash slot moves to another node; all other requests wait until it
// has moved. Each slot has a quarantine of its own: after it has moved, or its data was
// lost, nothing is granted in it for MaxTTL. A master that hangs delays only its own
// locks.
//
// The exact layout is described in docs/redis-protocol.md, what holds under which
// assumption in docs/guarantees/redis.md.
package redislock
