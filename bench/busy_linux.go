// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// exactCPU is cpuOf in nanoseconds, with the processes that pid has begun and that still are.
func exactCPU(pid int) time.Duration {
	sum := clockOf(pid)
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		b, _ := os.ReadFile(list)
		for _, f := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				sum += clockOf(child)
			}
		}
	}
	return sum
}

// clockOf reads the clock of the processor time of another process: see
// clock_getcpuclockid(3).
func clockOf(pid int) time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|2), &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// exact is what all servers together have used so far.
func (w *world) exact() (sum time.Duration) {
	for _, s := range w.servers {
		sum += exactCPU(s.Pid())
	}
	return sum
}

// busy is for how long processors of the machine have worked so far, for anybody.
func busy() time.Duration {
	b, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(b), "\n")
	var ticks int64
	for i, f := range strings.Fields(line) {
		idle := i == 4 || i == 5
		if n, err := strconv.ParseInt(f, 10, 64); err == nil && i <= 8 && !idle {
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// resident is the memory of the servers.
func (w *world) resident() (sum float64) {
	for _, s := range w.servers {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.Pid()))
		if f := strings.Fields(string(b)); len(f) > 1 {
			pages, _ := strconv.ParseFloat(f[1], 64)
			sum += pages * float64(os.Getpagesize())
		}
	}
	return sum
}

// info sums up numbers that Redis servers know of themselves.
func (w *world) info(section string, keys ...string) (sum float64) {
	for _, addr := range w.Redis {
		text, _ := command(addr, "INFO", section)
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			for _, k := range keys {
				if k == key {
					n, _ := strconv.ParseFloat(value, 64)
					sum += n
				}
			}
		}
	}
	return sum
}

// traffic is what Redis servers have sent and received.
func (w *world) traffic() float64 {
	return w.info("stats", "total_net_input_bytes", "total_net_output_bytes")
}
