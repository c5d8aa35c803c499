// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package job

import (
	"os/signal"
	"syscall"
)

// Ignored reports whether pawl's caller started this process with a signal ignored.
func Ignored(sig syscall.Signal) bool { return signal.Ignored(sig) }
