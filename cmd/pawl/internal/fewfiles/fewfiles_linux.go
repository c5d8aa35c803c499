// SPDX-License-Identifier: Apache-2.0

// Package fewfiles ends the process with a line if it may not open the files without which Go's
// runtime would end it with a trace. It imports package syscall alone, so that its init runs before those that
// open files: Go initialises packages in the order of their paths, as far as imports allow.
package fewfiles

import "syscall"

const (
	enough     = 64 // nobody has to look
	needed     = 4  // for Go's poller, and for one that is open meanwhile
	exitSystem = 71 // as main has it
)

func init() {
	var limit syscall.Rlimit // package os raises the soft one
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Max >= enough {
		return
	}
	var files [needed]int
	for i := range files {
		fd, err := syscall.Open("/", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err == syscall.EMFILE {
			_, _ = syscall.Write(2, []byte("pawl: system: a process may open too few files: raise the limit: ulimit -n 64\n"))
			syscall.Exit(exitSystem)
		}
		files[i] = fd
	}
	for _, fd := range files {
		_ = syscall.Close(fd)
	}
}
