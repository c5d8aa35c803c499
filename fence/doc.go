// SPDX-License-Identifier: Apache-2.0

/*
Package fence is the resource's half of fencing. It keeps a holder that has lost its lease,
and does not know it yet, from writing.

All helpers here follow three rules:

  - A resource accepts a write only if its token is at least the largest token that the
    resource has seen.
  - It stores the largest token atomically with the write. No larger token can come between the
    check and the write.
  - A new holder raises the token of the resource before it reads. Otherwise a late write of
    the previous holder could come between the read and the write.

So each helper has one call that raises the token or refuses it. After that call reading and
writing are safe. [Guard] has Do, in the memory of a process ([Memory]) or in a directory ([Dir]).
[Dialect.Install] works in a transaction of a database, [Handler] and [Transport] work over
HTTP. Package redislock/redisfence does the same for Redis.

# What may happen

	the event                                what follows
	---------------------------------------  -----------------------------------------
	a holder pauses before the check         when the next holder has raised the token,
	                                         the write is refused: a *StaleError
	a holder pauses between check and write  Install of the next holder waits for it, or
	                                         until its own context ends
	a crash between raising and writing      the token stays raised (a database rolls it
	                                         back with the transaction); the holder
	                                         tries again
	the answer to a write is lost            the same token may be used again; the write
	                                         itself must be safe to repeat

# What is not protected

Fencing does not protect effects outside the resource, such as a mail that is sent during a
transaction; a write that goes on after the function given to Do has returned; and a resource with
other writers that do not check tokens. All tokens of a resource must come from leases on one name in one
store: others are not comparable. Several leases that hold a name together, by pawl.Shared and
pawl.Slots, have a token each, and a smaller token does not mean that its lease has ended. Fence the
writes of exclusive leases only.

A client that may send a token may send a large one, and shut all others out. Accept tokens
only from clients that may write.
*/
package fence
