// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"os"

	"golang.org/x/sys/unix"
)

// watch is the writing end of a FIFO. Holders and waiters keep the reading end open, and the kernel closes it when
// they end, for whatever reason. So while the FIFO has a reader, that holder or waiter is alive.
type watch struct {
	f  *os.File
	of ticket // of the watched waiter; empty for a holder
}

// openWatch returns a watch on the FIFO at path, or nil if the FIFO has no reader or does not exist.
func openWatch(path string) (*watch, error) {
	f, err := openFIFO(path)
	if f == nil {
		return nil, err
	}
	return &watch{f: f}, nil
}

func (w *watch) close() { w.f.Close() }

// whenGone calls f when the last reader has closed the FIFO, unless w is closed before. The waiting goroutine is
// parked in the runtime's poller: it takes neither a thread nor CPU time.
//
// The poller reports edges, so whenGone checks the condition after each one. If a new reader has come in the
// meantime, it goes on waiting.
func (w *watch) whenGone(f func()) {
	conn, err := w.f.SyscallConn()
	if err != nil {
		return // w is closed
	}
	go func() {
		if conn.Write(func(fd uintptr) bool { return unread(int(fd)) }) == nil {
			f()
		}
	}()
}

// unread reports whether the FIFO has lost its last reader.
func unread(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	err := ignoringEINTR(func() error {
		_, err := unix.Poll(fds, 0)
		return err
	})
	return err == nil && fds[0].Revents&unix.POLLERR != 0
}
