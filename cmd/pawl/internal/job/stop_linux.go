// SPDX-License-Identifier: Apache-2.0

package job

import (
	"syscall"
	"unsafe"
)

// defaultStop gives TSTP its default action until the function that it returns
// is called. signal.Reset does not: for a signal that has once been caught, the
// runtime's handler stays, and does nothing. STOP in its place would stop us
// also where nobody can continue us.
func defaultStop() (restore func()) {
	// Larger than the kernel's structure on any architecture. All zeros is the
	// default action on all of them.
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
