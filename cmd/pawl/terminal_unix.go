// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize returns how many columns and rows the terminal f has, or 0 if f is none.
func terminalSize(f *os.File) (columns, rows int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}

// nobodyReads reports whether f is a pipe whose reader has gone. A write would tell, but there may be
// nothing to write for long.
func nobodyReads(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}
