// SPDX-License-Identifier: Apache-2.0

// Package filelock keeps leases in a directory of one machine. It needs no
// server, and a holder that crashes is gone at once.
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
// Exclusion is flock(2) on NAME.lock, and nothing else. The kernel frees it when
// the last process that has the file open ends, in whatever way. After locking,
// the path must still lead to the locked file; we never delete it. Whoever does
// delete it should take its flock first, as systemd-tmpfiles does; a holder
// whose file was taken away finds out within seconds and loses its lease.
//
// The token is in the same file. A grant is returned only when the disk has
// its token, in a slot that did not hold the token before it, so that
// neither a kill nor a power cut makes a token come twice. Most grants have the 63 tokens
// after their own, too, for waiters of the same process that they are handed over to. Tokens follow
// the clock, in microseconds, so that they go on after the file was deleted or an old one restored. If
// the file is damaged, no grant is given.
//
// Leases that are not exclusive, on Linux, hold the flock in common, one of
// several slots that of NAME.slot0, NAME.slot1 … besides, and join each other one
// at a time with the flock of NAME.gate. See together_linux.go.
//
// All the rest is about waiting and may be deleted at any time:
//
//	NAME.fifo    open for reading by the holder: a watcher sees the holder
//	             go, and who writes to it asks the holder to let go
//	NAME.held/   the same, for each of those who hold the name together
//	NAME.queue/  tickets, one FIFO each, open for reading by their waiters
//
//	             lock is busy            head, and lock is free
//	TryAcquire ───────────────▶ ticket ─────────────────────────▶ holder
//	                             │  ▲                               │ Release:
//	                             ▼  │ the one ahead is gone         │ note, unlock,
//	                       watches the one ahead;                   ▼ close the FIFO
//	                       the head watches the holder ◀──────── wakes
//
// A waiter is parked in the poller with two open files, takes no thread, and is
// woken by the end of the one before it, be that a release or a kill. Nobody but
// the head of the queue tries to lock. A waiter that is stopped (Ctrl-Z) is
// passed over, and has its place again when it goes on.
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
//	lock file deleted while held  others may get in: the holder is told it has lost
//	disk full, read-only          ErrUnavailable; nothing changes
//	lock file damaged             ErrUnavailable, until it is deleted
//	machine restarted             free; tokens go on
//
// Waiting in a queue, and asking a holder to let go, work on Linux. On macOS, BSD
// and Windows package pawl polls, and Break returns errors.ErrUnsupported. Other
// systems have no flock.
package filelock
