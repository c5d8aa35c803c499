// SPDX-License-Identifier: Apache-2.0

// Package pglock keeps leases in a PostgreSQL database.
//
//	locks, err := pglock.Open(ctx, "postgres://app@localhost/app", nil)
//
// Each name is a row. To acquire, renew or release a lease takes one round trip, to a function that is safe to
// repeat. Leases are not advisory locks: they need no session, so they work through PgBouncer.
//
// # The lock that commits with the data
//
// If your data are in the same database, late writes are impossible:
//
//	tx, err := pool.Begin(ctx)
//	if err := pglock.Guard(ctx, lease, tx); err != nil { … }
//	… // writes
//	err = tx.Commit(ctx)
//
// Guard makes the transaction fail unless the lease is held. Until the transaction ends, the server grants the
// name to no other client, even if the lease expires. A holder that was paused or cut off therefore commits before
// the next holder begins, or not at all. This needs no fencing token in the data and no assumption about clocks.
//
// # Waiting
//
// Waiters form a queue. The transaction that ends a lease also grants the name to the first waiter, and NOTIFY
// tells the waiter's client. Each client uses one connection to listen. If that connection is gone, the server
// passes over the client's waiters. Messages may be late, so waiters also look from time to time. A pooler does
// not pass messages on: behind a pooler waiters look up to ten times a second, unless Options.Listen names a
// direct address.
//
// # A server that forgets
//
// A server whose commits reach the disk forgets no lease when it restarts. A promoted replica may lack the last
// commits, unless replication is synchronous; see Mode. It then grants nothing for MaxTTL, until every lease that
// it may lack has ended. The database contains the MaxTTL of all clients. A release without waiters does not wait
// for the disk: if a crash loses it, the name is held until the TTL ends.
//
// docs/postgres-protocol.md describes the tables and functions. docs/guarantees/postgres.md lists the guarantees
// and their assumptions.
package pglock
