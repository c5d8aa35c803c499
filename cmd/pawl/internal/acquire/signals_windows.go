// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"os"
	"os/signal"
	"syscall"
)

var (
	ending = []os.Signal{os.Interrupt, syscall.SIGTERM}
	others []os.Signal
)

func listen(ch chan<- os.Signal, signals []os.Signal) {
	if len(signals) > 0 {
		signal.Notify(ch, signals...)
	}
}

func unlisten() {}

func keepWriting() {}

// IsContinue reports whether a signal continues a stopped process.
func IsContinue(os.Signal) bool { return false }

func closeOnExec(fd int) { syscall.CloseOnExec(syscall.Handle(fd)) }
