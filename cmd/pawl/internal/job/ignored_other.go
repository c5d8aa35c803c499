// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package job

import (
	"os/signal"
	"syscall"
)

// Ignored reports whether this process was started to ignore a signal.
func Ignored(sig syscall.Signal) bool { return signal.Ignored(sig) }
