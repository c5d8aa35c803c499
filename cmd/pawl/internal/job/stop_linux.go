// SPDX-License-Identifier: Apache-2.0

package job

import (
	"syscall"
	"unsafe"
)

// defaultStop gives TSTP its default action until the caller calls restore.
// signal.Reset cannot do that: once a signal has been caught, the runtime's handler
// stays installed and does nothing. Sending STOP instead would stop us even where nobody
// can continue us.
func defaultStop() (restore func()) {
	// std and old are larger than the kernel's structure on any architecture. All zeros
	// mean the default action on each of them.
	var std, old [64]byte
	const sizeofMask = 8
	action := func(set, get *[64]byte) syscall.Errno {
		_, _, err := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGTSTP),
			uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), sizeofMask, 0, 0)
		return err
	}
	if action(&std, &old) != 0 {
		return func() {}
	}
	return func() { action(&old, nil) }
}
