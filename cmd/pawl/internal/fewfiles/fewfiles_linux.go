// SPDX-License-Identifier: Apache-2.0

// Package fewfiles ends the process with an error line if the process may open too few files. Without
// it, Go's runtime would end the process with a stack trace. The package imports only syscall, so that its
// init runs before any that opens files: Go initialises packages in the order of their paths, as
// far as imports allow.
package fewfiles

import "syscall"

const (
	enough     = 64 // with this limit, skip the check
	needed     = 4  // for Go's poller, and for one more file at the same time
	exitSystem = 71 // exit.System
)

func init() {
	var limit syscall.Rlimit // check Max, because package os raises the soft limit to it
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
