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

// fork is ForkExec with descriptors that keep their numbers: a fixed number
// such as 3 might be one that the caller of this program has opened for the
// command. They can be inherited by any child for the moment; nothing else in
// this process starts one.
func fork(path string, args []string, attr *syscall.ProcAttr, inherit []int) (int, error) {
	for _, fd := range inherit {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return 0, fmt.Errorf("file descriptor %d: %w", fd, err)
		}
		defer syscall.CloseOnExec(fd)
	}
	return syscall.ForkExec(path, args, attr)
}

// duplicate returns a copy of a descriptor with a high number, or a lower one
// where the limit (ulimit -n) does not allow that.
func duplicate(fd int) (n int, err error) {
	for _, low := range []int{100, 10, 3} {
		if n, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, low); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("file descriptor %d: %w", fd, err)
}

// shed lets go of what the guard has from the caller, but the lock: no pipe of the caller, no
// file system.
func (w *watch) shed() {
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

// closeFrom closes the descriptors from n on that this process was started
// with. The descriptors of Go's runtime are marked to be closed on exec; what
// has come through an exec is not.
func closeFrom(n int) {
	for _, fd := range descriptors() {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); fd >= n && err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// descriptors returns the numbers of the open files, or all that are usual.
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

// number returns f's descriptor without the side effects of Fd.
func number(f *os.File) int {
	n := -1
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { n = int(fd) })
	}
	return n
}
