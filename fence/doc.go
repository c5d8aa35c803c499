// SPDX-License-Identifier: Apache-2.0

/*
Package fence is the resource's half of fencing. If a holder has lost its lease and does not know it
yet, fence refuses its writes.

All helpers here follow three rules:

  - A resource accepts a write only if its token is at least the largest token that the
    resource has seen.
  - The resource stores the largest token atomically with the write. No larger token can come between
    the check and the write.
  - A new holder raises the token of the resource before it reads. Otherwise a late write of
    the previous holder could come between the read and the write.

So each helper has one call that raises the token or refuses it. After that call reading and
writing are safe. [Guard] has the call Do, for a resource in the memory of a process ([Memory]) or
on a disk ([Dir]). [Dialect.Install] works in a database transaction. [Handler] and [Transport] work
over HTTP. Package redislock/redisfence does the same for Redis.

# What may happen

	the event                                what follows
	---------------------------------------  -----------------------------------------
	a holder pauses before the check         when the next holder has raised the token,
	                                         the write is refused: a *StaleError
	a holder pauses between check and write  the call of the next holder waits for it, or
	                                         returns when its context ends
	a crash between raising and writing      the token stays raised (a database rolls it
	                                         back with the transaction); the holder
	                                         tries again
	the answer to a write is lost            the same token may be used again; the write
	                                         itself must be safe to repeat

# What is not protected

Fencing does not protect:

  - effects outside the resource, such as a mail that is sent during a transaction;
  - a write that goes on after the function given to Do has returned;
  - a resource with other writers that do not check tokens.

All tokens of a resource must come from leases on one name in one store, as other tokens are not
comparable. If several leases hold a name together, by pawl.Shared or pawl.Slots, each has its own
token, and a smaller token does not mean that its lease has ended. So fence the writes of exclusive
leases only.

A client that may send a token may send a large one, and shut all others out. Accept tokens
only from clients that may write.
*/
package fence
