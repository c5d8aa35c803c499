// SPDX-License-Identifier: Apache-2.0

// Package pglock keeps leases in a PostgreSQL database.
//
//	locks, err := pglock.Open(ctx, "postgres://app@localhost/app", nil)
//
// A name is a row. Acquiring, renewing and releasing take one round trip each, in
// functions that can be repeated safely; they are no advisory locks, and need no session:
// they work through PgBouncer.
//
// # The lock that commits with the data
//
// Where the data are in the same database, no late write is possible at all:
//
//	tx, err := pool.Begin(ctx)
//	if err := pglock.Guard(ctx, lease, tx); err != nil { … }
//	… // writes
//	err = tx.Commit(ctx)
//
// Guard makes the transaction fail unless the lease is held. Until the transaction has
// ended nobody else is granted the name, even if the lease's time is over: a holder that
// was paused or cut off either commits before the next one begins, or not at all. That
// needs no fencing token in the data, and no assumption about clocks.
//
// # Waiting
//
// Waiters stand in a queue. Whoever ends a lease gives the name to the first waiter in
// the same transaction, and NOTIFY tells its client, which listens on one connection of
// its own. It is passed over if that connection is gone. As a message may be late,
// waiters also look. Through PgBouncer there is nothing to listen on, unless Options.Listen
// names a direct address: waiters look then, ten times a second at most.
//
// # A server that forgets
//
// A server whose commits reach the disk forgets no lease when it restarts. After a
// replica was promoted, it may lack the last commits, unless replication is synchronous:
// then nothing is granted for MaxTTL, on which all clients have agreed in the database,
// until every lease that may be missing has ended. See Mode. A release that nobody waits
// for does not wait for the disk: if a crash loses it, the name is held until the TTL ends.
//
// The exact layout is described in docs/postgres-protocol.md, what holds under which
// assumption in docs/guarantees/postgres.md.
package pglock
