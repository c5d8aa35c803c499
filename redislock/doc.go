// SPDX-License-Identifier: Apache-2.0

// Package redislock keeps leases in one Redis or Valkey server, or in a cluster.
//
//	locks, err := redislock.Open(ctx, "redis://localhost:6379", nil)
//
// A lock is one string, as SET key value NX PX ttl writes it. So GET shows the holder.
// Clients of this package and libraries that lock the same key with SET NX exclude each
// other. Acquiring, renewing and releasing take one round trip each. Each is a script
// that can be repeated safely.
//
// # Waiting
//
// Waiters are in a queue on the server. The script that ends a lease gives the lock to
// the first waiter in the same step, and sends a message to its client. The script skips
// a waiter whose client does not listen. A waiter that does not react within a second
// loses its turn. Messages may be lost, so every waiter also asks every two seconds.
//
// Readers, writers and waiters for slots are in the same queue, and nobody overtakes.
// Neighbours in the queue that can hold the lock together, such as two readers, get it
// together. While several leases hold a lock, it is a sorted set instead of a string.
//
// # A restart cannot give a lock away
//
// A server without persistence forgets all leases when it restarts. So the text of each
// script contains the run_id of the server. Redis drops its scripts when it restarts,
// and refuses the next request for one. So the client notices the restart, and a
// quarantine begins: the server grants nothing for MaxTTL. In that time every lease that
// the server may have forgotten ends. Renewals go on. All clients of a store use the
// same MaxTTL.
//
// A quarantine also begins after FLUSHALL and any other loss of data: the scripts grant
// leases only while the server has the record of its present run. It begins after a
// failover, since the replica may lack the last grants of its master, and when the
// address leads to another server. A server that has just started is in quarantine too;
// see Bless.
//
// # Clusters
//
// All keys of a lock are in one hash slot, at one master. While the slot moves to
// another node, leases can be renewed, and all other requests wait. Each slot has its
// own quarantine: after the slot has moved or lost its data, it grants nothing for
// MaxTTL. A master that hangs delays only its own locks.
//
// docs/redis-protocol.md describes the keys and messages. docs/guarantees/redis.md lists
// the guarantees and their assumptions.
package redislock
