// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package job

import (
	"syscall"
	"time"
)

// defaultStop stops us if TSTP is about to have no effect. The runtime's
// handler for it cannot be removed here, see stop_linux.go, and STOP works
// with it. Where nobody can continue us that is wrong, but there it is rare that
// somebody types Ctrl-Z.
func defaultStop() (restore func()) {
	go func() {
		time.Sleep(orphanWait / 4)
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
	}()
	return func() {}
}
