// SPDX-License-Identifier: Apache-2.0

// Package filelock keeps leases in a directory of one machine. It needs no
// server, and the lock of a holder that crashes is free at once.
//
//	locks, err := filelock.Open("", nil)
//	if err != nil {
//		return err
//	}
//	defer locks.Close()
//	return locks.Do(ctx, "backup", func(ctx context.Context, lease *pawl.Lease) error { … })
//
// # Why it is safe
//
// Only flock(2) on NAME.lock excludes. The kernel frees it when the last process that
// has the file open has ended. After locking, the path must still lead to the locked
// file. pawl never deletes it. A cleaner should lock a file before it deletes it, as
// systemd-tmpfiles does; a holder whose file was deleted notices within seconds and
// loses its lease.
//
// The token is in the same file. It is on the disk before the grant is returned, beside
// the token before it, so neither a kill nor a power cut makes a token come twice. Most
// grants reserve the next 63 tokens, for hand-offs within the process. Tokens follow the
// clock, in microseconds, so they also grow after the file was deleted or an old one
// restored. A damaged file grants nothing.
//
// On Linux, shared leases and slots share the flock. A slot also locks NAME.slot0,
// NAME.slot1 …, and holders join one at a time under the flock of NAME.gate. See
// together_linux.go.
//
// The other files are for waiting, and may be deleted at any time:
//
//	NAME.fifo    the holder has it open for reading: a watcher sees the holder
//	             go, and a writer asks the holder to release
//	NAME.held/   the same for each holder of a shared lease or slot
//	NAME.queue/  tickets, one FIFO each, open for reading by their waiters
//
//	             lock is busy            head, and lock is free
//	TryAcquire ───────────────▶ ticket ─────────────────────────▶ holder
//	                             │  ▲                               │ Release:
//	                             ▼  │ the one ahead is gone         │ note, unlock,
//	                       watches the one ahead;                   ▼ close the FIFO
//	                       the head watches the holder ◀──────── wakes
//
// A waiter waits in the poller with two open files and no thread. The end of the waiter
// before it wakes it, after a release and after a kill. Only the head of the queue tries
// to lock. A waiter that is stopped (Ctrl-Z) is skipped, and gets its place back when it
// goes on.
//
// # What fails how
//
//	holder killed, crashed        free at once, next waiter is woken
//	holder killed, child lives on held until the child ends; shown as an orphan
//	holder stopped                held; Break reports that it does not answer
//	waiter killed                 its successor closes up
//	waiter frozen by its cgroup   those behind it wait until it is thawed
//	one of several killed         the others hold on; its place is free at once
//	killed while it joins         nothing; stopped while it joins: nobody else joins
//	queue or FIFO deleted         exclusion stays; order may be lost, the head
//	                              looks ten times a second
//	lock file deleted while held  a second holder may get in; the first loses its lease
//	disk full, read-only          ErrUnavailable; nothing changes
//	lock file damaged             ErrUnavailable, until it is deleted
//	machine restarted             free; tokens go on
//
// The queue, and asking a holder to release, work on Linux. On macOS, BSD
// and Windows package pawl polls, and Break returns errors.ErrUnsupported. Other
// systems have no flock.
package filelock
