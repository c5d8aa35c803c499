// SPDX-License-Identifier: Apache-2.0

// Package pglock keeps leases in a PostgreSQL database.
//
//	locks, err := pglock.Open(ctx, "postgres://app@localhost/app", nil)
//
// A name is a row. Acquiring, renewing and releasing are one call of a function each,
// which can be repeated safely. They use no advisory locks and no session, so they work
// through PgBouncer.
//
// # The lock that commits with the data
//
// If the data is in the same database, Guard makes late writes impossible:
//
//	tx, err := pool.Begin(ctx)
//	if err := pglock.Guard(ctx, lease, tx); err != nil { … }
//	… // writes
//	err = tx.Commit(ctx)
//
// The transaction fails unless the lease is held. Nobody else is granted the name until
// the transaction has ended, even if the lease has expired. So a holder that was paused
// or cut off commits before the next holder begins, or not at all. This needs neither
// fencing tokens in the data nor assumptions about clocks.
//
// # Waiting
//
// Waiters are in a queue. The transaction that ends a lease gives the name to the first
// waiter, and notifies its client, which listens on a connection of its own. It skips a
// waiter whose connection is gone. A notification may be late, so waiters also look.
// Through PgBouncer a client cannot listen unless Options.Listen names a direct address:
// without it the first waiter looks ten times a second.
//
// # A server that forgets
//
// A server whose commits reach the disk forgets no lease when it restarts. A promoted
// replica may lack the last commits, unless replication is synchronous. Then nothing is
// granted for MaxTTL, on which all clients have agreed in the database, until every
// lease that may be missing has ended. See Mode. A release that nobody waits for does
// not wait for the disk: if a crash loses it, the name stays taken until the TTL ends.
//
// docs/postgres-protocol.md describes tables and functions, docs/guarantees/postgres.md
// what holds under which assumption.
package pglock
