// SPDX-License-Identifier: Apache-2.0

//go:build unix

package display

import (
	"os"

	"golang.org/x/sys/unix"
)

// ClosedOutput reports whether f, an output of this process, was closed when the process began. Go
// then opens the null device in its place, for reading and writing. A shell that redirects output
// to the null device opens it for writing only.
func ClosedOutput(f *os.File) bool {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE != unix.O_RDWR {
		return false
	}
	is, err := f.Stat()
	null, nullErr := os.Stat(os.DevNull)
	return err == nil && nullErr == nil && os.SameFile(is, null)
}

// NobodyReads reports whether f is a pipe whose reader has gone. A write would fail too, but it may
// be long until the next write.
func NobodyReads(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}
