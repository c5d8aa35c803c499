// SPDX-License-Identifier: Apache-2.0

// Package pglock keeps leases in a PostgreSQL database.
//
//	locks, err := pglock.Open(ctx, "postgres://app@localhost/app", nil)
//
// Each name is a row. A call to acquire, renew or release is one round trip to a function that
// is safe to repeat. Leases are not advisory locks. They need no session, and so they work through
// PgBouncer.
//
// # The lock that commits with the data
//
// If the data are in the same database, late writes are impossible:
//
//	tx, err := pool.Begin(ctx)
//	if err := pglock.Guard(ctx, lease, tx); err != nil { … }
//	… // writes
//	err = tx.Commit(ctx)
//
// Guard makes the transaction fail unless the lease is held. Until the transaction ends, the
// server grants the name to no other client, even if the TTL of the lease is over. A holder that was paused
// or cut off therefore commits before the next holder begins, or not at all. This needs no fencing
// token in the data and no assumption about clocks.
//
// # Waiting
//
// Waiters form a queue. The transaction that ends a lease also grants the name to the first
// waiter, and NOTIFY tells its client. Each client listens on a connection of its own; without
// that connection the client is gone, and its waiters are passed over. A message may be late, so
// waiters also look from time to time. A pooler passes no messages on: there waiters look up
// to ten times a second, unless Options.Listen names a direct address.
//
// # A server that forgets
//
// A server whose commits reach the disk forgets no lease when it restarts. A promoted replica
// may lack the last commits, unless replication is synchronous. It then grants nothing for MaxTTL,
// until every lease that it may lack has ended. All clients have agreed on MaxTTL in the database.
// See Mode. A release without waiters does not wait for the disk: if a crash loses it, the name is
// held until the TTL ends.
//
// The layout is described in docs/postgres-protocol.md, the assumptions and guarantees in
// docs/guarantees/postgres.md.
package pglock
