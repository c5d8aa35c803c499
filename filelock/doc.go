// SPDX-License-Identifier: Apache-2.0

// Package filelock keeps leases in a directory of one machine. It needs no server. If a holder crashes, its lock
// is free at once.
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
// An exclusive holder has a flock(2) on NAME.lock. The kernel frees the flock when the last process that has the
// file open has ended. After locking, the client checks that the path still leads to the locked file. pawl never
// deletes the file. A cleaner should lock a file before it deletes it, as systemd-tmpfiles does. If somebody
// deletes the file of a lock that is held, the holder notices within seconds and loses its lease.
//
// The fencing token is in the same file. The client returns a grant only when the token is on disk, and keeps the
// previous token beside it. So neither a kill nor a power cut makes a token come twice. Most grants reserve the
// next 63 tokens, for hand-offs within the process. Tokens follow the clock, in microseconds, so they also grow
// after the file was deleted or an old file was restored. If a file is damaged, its lock is granted to nobody.
//
// On Linux, shared leases and slots share the flock. A slot also locks NAME.slot0, NAME.slot1 and so on, and
// holders join one at a time under the flock of NAME.gate. See together_linux.go.
//
// The other files are for waiting. They may be deleted at any time:
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
// A waiter takes two open files and no thread: it waits in the poller. It wakes when the waiter before it ends,
// whether that released or was killed. Only the head of the queue tries to lock. The others pass over a waiter
// that is stopped (Ctrl-Z). It gets its place back when it continues.
//
// # What happens when something fails
//
//	holder killed, crashed        free at once; the next waiter wakes
//	holder killed, child lives on held until the child ends; shown as an orphan
//	holder stopped                held; Break reports that it does not answer
//	waiter killed                 the next waiter moves up
//	waiter frozen by its cgroup   waiters behind it wait until it is thawed
//	one of several killed         the others keep their leases; its place is free at once
//	killed while it joins         nothing; stopped while it joins: nobody else joins
//	queue or FIFO deleted         locks still exclude; order may be lost, and the head
//	                              looks ten times a second
//	lock file deleted while held  a second holder may get in; the first loses its lease
//	disk full, read-only          ErrUnavailable; nothing changes
//	lock file damaged             ErrUnavailable, until it is deleted
//	machine restarted             free; tokens go on
//
// The queue and Break work on Linux. On macOS, BSD and Windows package pawl polls, and Break returns
// errors.ErrUnsupported. Other systems have no flock, so Open returns an error.
package filelock
