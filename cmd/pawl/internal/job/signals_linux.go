// SPDX-License-Identifier: Apache-2.0

package job

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// Ignored reports whether pawl's caller started this process with a signal ignored. The
// command then ignores the signal too. Package signal knows this only for HUP and INT. For
// the job control signals, the kernel still knows it, because Go's runtime leaves
// them alone; so Ignored must be called once before the process catches one of them. For all
// other signals, such as TERM and QUIT, the runtime has already replaced the setting when
// main begins: they get their default action in the command.
func Ignored(sig syscall.Signal) bool {
	return signal.Ignored(sig) || initiallyIgnored()&(1<<(sig-1)) != 0
}

var initiallyIgnored = sync.OnceValue(func() uint64 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if set, ok := strings.CutPrefix(line, "SigIgn:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
			return n
		}
	}
	return 0
})

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
