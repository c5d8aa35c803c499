// SPDX-License-Identifier: Apache-2.0

package job

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Ignored reports whether this process was started to ignore a signal, and the
// command is to ignore it too. Package signal knows it of HUP and INT only. The
// kernel knows it of the job control signals as well, as Go's runtime leaves
// them alone; so the first call must be before one of them is caught. For all
// others, such as TERM and QUIT, the runtime has forgotten it when main begins:
// they have their default action in the command.
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
