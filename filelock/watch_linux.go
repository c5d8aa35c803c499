// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// watch is the writing end of a FIFO. As long as the FIFO has a reader, that
// reader is alive: holders and waiters keep theirs open for that purpose, and
// the kernel closes it when they end in whatever way.
type watch struct {
	f  *os.File
	of ticket // of the waiter that is watched, if it is one
}

// openWatch returns nil if the FIFO at path has no reader, or does not exist.
func openWatch(path string) (*watch, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, unix.ENXIO), errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !isFIFO(f):
		f.Close()
		return nil, nil
	}
	return &watch{f: f}, nil
}

func (w *watch) close() { w.f.Close() }

// whenGone calls f when the last reader has closed the FIFO, unless w is closed before. The goroutine that waits is
// parked in the runtime's poller: it takes neither a thread nor time.
//
// The poller tells of edges, so the condition is asked again after each. If
// another reader has come meanwhile, somebody is there, and it waits on.
func (w *watch) whenGone(f func()) {
	conn, err := w.f.SyscallConn()
	if err != nil {
		return // it is closed
	}
	go func() {
		if conn.Write(func(fd uintptr) bool { return unread(int(fd)) }) == nil {
			f()
		}
	}()
}

// unread reports whether the FIFO has no reader any more.
func unread(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	err := ignoringEINTR(func() error {
		_, err := unix.Poll(fds, 0)
		return err
	})
	return err == nil && fds[0].Revents&unix.POLLERR != 0
}
