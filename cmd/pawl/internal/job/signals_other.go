// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package job

import (
	"os/signal"
	"syscall"
	"time"
)

// Ignored reports whether pawl's caller started this process with a signal ignored.
func Ignored(sig syscall.Signal) bool { return signal.Ignored(sig) }

// defaultStop stops us with STOP a moment later, because TSTP will have no effect: the
// runtime's handler for TSTP cannot be removed here (see signals_linux.go). STOP is wrong
// where nobody can continue us, but nobody is likely to type Ctrl-Z there.
func defaultStop() (restore func()) {
	go func() {
		time.Sleep(orphanWait / 4)
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
	}()
	return func() {}
}
