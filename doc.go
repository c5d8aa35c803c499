// SPDX-License-Identifier: Apache-2.0

/*
Package pawl gives leases on names, so that only one process, on one machine
or many, acts on a name at a time.

	locks, err := pawl.Open(ctx, url, nil) // import the package of the store, too
	if err != nil {
		return err
	}
	defer locks.Close()
	return locks.Do(ctx, "invoice/42", func(ctx context.Context, lease *pawl.Lease) error {
		return store.Save(ctx, invoice, lease.Token())
	})

# The model

A [Client] acquires a [Lease] on a name from one store. A lease is the right to
act on the name until its Done channel is closed. It carries a [Token], a number
greater than that of every earlier lease on the name.

The store decides which holder has a name. It gives each lease a time to live (TTL) and
ends the lease when that has passed without a renewal, so that a holder that has crashed
does not keep a name for ever. The client renews in the background at a third of the
TTL, so TTL is the time to notice a crash and not a limit on the work. A store on the same
machine may see instead that the process of the holder has ended. Its leases do not expire,
and have no deadline.

[Open] finds the store by the scheme of a URL, in the packages that the program imports.
https://github.com/pawl-go/pawl#stores lists them, and what each of them can do.

# The trust window

The holder cannot see the store's clock, and the answer to its request took time
to travel. So it trusts a lease only from the instant at which it sent the
request that the store confirmed last, for one TTL less an allowance for clocks
that run at different rates:

	deadline = sent + TTL - drift      drift = TTL/100 + 2 ms

At the deadline the client ends the lease by its own timer, even while a renewal
hangs: it closes Done and cancels the contexts made by [Lease.Context], with
[ErrLost] as their cause, before the store can give the name to another holder. Local
time may end a lease earlier than the store does, never later. The clock goes
on while the machine is suspended, but timers do not. After a resume, [Lease.Err] and the
Err method of the lease's contexts look at the clock and report the loss at once; Done is
closed within a second.

# Kinds

A lease is exclusive unless the call says otherwise. [Shared] leases are held
together, as by readers, and keep out all others; [Slots] lets n hold the name at a
time. [Lease.Downgrade] gives a writer a reader's lease without letting go in
between. There is no upgrade: two readers would wait for each other for ever.
[Reentrant] lets a holder acquire again what it holds, [Client.AcquireAll]
takes several names without danger of deadlock, and [Client.Elect] keeps one
leader.

# States

	        granted
	           |
	           v      a renewal failed or is overdue
	       +------+ --------------------------------> +---------+
	       | held |                                   | suspect |
	       +------+ <-------------------------------- +---------+
	        |    |            renewed                  |       |
	Release |    | broken, gone, MaxHold over  Release |       | deadline,
	        v    v                                     v       v broken, gone
	 +----------+ +------+                      +----------+ +------+
	 | released | | lost |                      | released | | lost |
	 +----------+ +------+                      +----------+ +------+

A suspect lease is still held: work may go on until the deadline. Done is closed when the
lease is lost or released. Both states are final: a late answer to a renewal changes
nothing.

# What can fail

	the event                            what the client does
	-----------------------------------  -------------------------------------------
	the store refuses or does not answer  TryAcquire and the first attempt of Acquire
	                                      return ErrUnavailable; a waiting Acquire
	                                      goes on for one TTL more
	the answer to an acquire is lost      ErrUncertain: not held; undone in the
	                                      background; Acquire tries again
	the answer to a renewal is lost       suspect; the old deadline stands; retried
	the store is away past the deadline   lost at the deadline
	somebody breaks the lease             lost at once, or at the next renewal, with
	                                      who and why in the LostError
	the process is paused past the TTL    lost: seen before the next use of the lease
	the answer to a release is lost       repeated in the background until certain
	callers wait for each other           ErrDeadlock for one of them
	ctx ends while waiting                the place in the queue is given up
	ctx ends in the instant of the grant  the grant is put back
	the process is killed                 the store ends the lease: after the TTL, or
	                                      at once where it watches the process

# What a lock cannot do

Between the moment a process looks at its lease and the moment its write arrives
somewhere, any time may pass: the process may be paused, the packet delayed. No
lock service can prevent that. Where acting twice is not only wasteful but wrong,
send the [Token] along and have the resource refuse a token smaller than the
largest it has seen. Package fence does that for databases, HTTP services, files and
memory.
*/
package pawl
