// SPDX-License-Identifier: Apache-2.0

//go:build unix

package waiting

import "syscall"

// processGone reports whether there is no process with this id.
func processGone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }
