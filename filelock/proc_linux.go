// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// process identifies a process beyond the reuse of its id. It serves people
// only; who holds what is a matter of open files.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start,omitempty"` // in ticks since boot
	Space string `json:"space,omitempty"` // in which namespace PID counts
}

// self describes this process.
var self = sync.OnceValue(func() process {
	p := process{PID: os.Getpid()}
	_, p.Start, _ = procStat(p.PID)
	p.Space, _ = os.Readlink("/proc/self/ns/pid")
	return p
})

// dead reports whether p has certainly ended.
func (p process) dead() bool {
	if p.PID == 0 || p.Space != self().Space || self().Start == 0 {
		return false // we cannot see it, or /proc does not tell
	}
	state, start, err := procStat(p.PID)
	if err != nil {
		return os.IsNotExist(err)
	}
	return start != p.Start || state == 'Z' || state == 'X'
}

// stopped reports whether a process is stopped by a signal or a debugger.
func stopped(pid int) bool {
	state, _, err := procStat(pid)
	return err == nil && (state == 'T' || state == 't')
}

// procStat returns the state and the start time of a process.
func procStat(pid int) (state byte, start uint64, err error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, err
	}
	// The second field is the command in brackets and may contain anything.
	text := string(stat)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return fields[0][0], start, err
}
