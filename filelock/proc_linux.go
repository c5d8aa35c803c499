// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/driver"
)

// process identifies a process even if its PID is used again. It only informs people; open files decide who holds
// a lock.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start,omitempty"` // in ticks since boot
	Space string `json:"space,omitempty"` // the PID namespace of PID
}

// self describes this process.
var self = sync.OnceValue(func() process {
	p := process{PID: os.Getpid()}
	_, p.Start, _ = procStat(p.PID)
	p.Space = driver.PIDSpace()
	return p
})

// here reports whether p is in the PID namespace of this process.
func (p process) here() bool { return p.PID > 0 && p.Space != "" && p.Space == self().Space }

// dead reports whether p has certainly ended. A process that is missing in /proc may live: hidepid hides the
// processes of other users.
func (p process) dead() bool {
	if !p.here() {
		return false
	}
	if unix.Kill(p.PID, 0) == unix.ESRCH {
		return true
	}
	state, start, err := procStat(p.PID)
	return err == nil && (p.Start != 0 && start != p.Start || state == 'Z' || state == 'X')
}

// stopped reports whether a signal or a debugger has stopped p, as far as this process can see.
func (p process) stopped() bool {
	if !p.here() {
		return false
	}
	state, _, err := procStat(p.PID)
	return err == nil && (state == 'T' || state == 't')
}

// procStat returns the state and the start time of a process.
func procStat(pid int) (state byte, start uint64, err error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, err
	}
	// The second field is the command in parentheses. It may contain anything.
	text := string(stat)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return fields[0][0], start, err
}
