// SPDX-License-Identifier: Apache-2.0

/*
Package fence is the resource's half of fencing: what keeps a holder that has
lost its lease, and does not know it yet, from writing.

The rule has three parts, and all helpers here follow it.

  - A resource accepts a write only if its token is at least the largest that
    the resource has seen.
  - It stores the largest token atomically with the write: no larger token can
    come between the check and the write.
  - Install before read: a new holder raises the resource's token first and reads
    then. Otherwise a late write of the holder before it could come between its
    read and its write.

So each helper has one call that raises the token or refuses it, after which
reading and writing is safe: [Guard]'s Do, in the memory of a process ([Memory]) or
in a directory ([Dir]); [Dialect.Install] in a transaction of a database;
[Handler] and [Transport] for HTTP. Package redislock/redisfence has the same for
Redis.

# What may happen

	the event                                what follows
	---------------------------------------  -----------------------------------------
	a holder pauses before the check         once the next one has raised the token, its
	                                         write is refused: a *StaleError
	a holder pauses between check and write  the next holder's Install waits for it, or
	                                         for the end of its own context
	a crash between raising and writing      the token stays raised (a database takes it
	                                         back with the rest of the transaction);
	                                         who holds the lease tries again
	the answer to a write is lost            trying again with the same token is allowed;
	                                         that it does no harm twice is the write's
	                                         business

# What is not protected

Effects outside the resource, such as a mail that is sent during a transaction; a
write that goes on after the function given to Do has returned; resources that are
written to by some who do not ask. Tokens of one resource must come from the leases
of one name in one store: others cannot be compared. Leases that are held by several
at a time, by pawl.Shared and pawl.Slots, have a token each, and a smaller one
does not mean that the lease has ended: fence writes of exclusive leases only.

Whoever may send a token may send a large one, and so keep everybody else out: let only
those send one that may write.
*/
package fence
