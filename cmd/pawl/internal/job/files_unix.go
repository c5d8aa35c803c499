// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// fork is ForkExec for a child that inherits descriptors under the same numbers. A
// fixed number such as 3 could collide with a file that pawl's caller has opened for
// the command. During the call any child could inherit the descriptors, but nothing
// else in this process starts a child.
func fork(path string, args []string, attr *syscall.ProcAttr, inherit []int) (int, error) {
	for _, fd := range inherit {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return 0, fmt.Errorf("file descriptor %d: %w", fd, err)
		}
		defer syscall.CloseOnExec(fd)
	}
	return syscall.ForkExec(path, args, attr)
}

// duplicate returns a copy of a descriptor. The copy's number is high, or lower if the
// limit (ulimit -n) does not allow that.
func duplicate(fd int) (n int, err error) {
	for _, low := range []int{100, 10, 3} {
		if n, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, low); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("file descriptor %d: %w", fd, err)
}

// closeInherited makes the guard give up everything that it has inherited from the caller, except
// the files that are the lock. It must not keep the caller's pipes open or its file systems
// busy.
func (w *watch) closeInherited() {
	for _, fd := range w.files {
		syscall.CloseOnExec(fd)
	}
	for fd := range 3 {
		_ = unix.Close(fd)
		_, _ = unix.Open(os.DevNull, unix.O_RDWR, 0) // gets the number that has just become free
	}
	closeFrom(3)
	_ = os.Chdir("/")
}

// closeFrom closes the inherited descriptors from n on. An inherited descriptor lacks
// the close-on-exec mark. The descriptors of Go's runtime have the mark, so they stay
// open.
func closeFrom(n int) {
	for _, fd := range descriptors() {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); fd >= n && err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// descriptors returns the numbers of the open files, or 0 to 1023 if it cannot list them.
func descriptors() (list []int) {
	entries, err := os.ReadDir("/dev/fd")
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil {
			list = append(list, fd)
		}
	}
	for fd := 0; err != nil && fd < 1024; fd++ {
		list = append(list, fd)
	}
	return list
}

// number returns f's descriptor, or -1. Unlike f.Fd, it does not change f.
func number(f *os.File) int {
	n := -1
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { n = int(fd) })
	}
	return n
}
