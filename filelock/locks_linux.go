// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// flocks returns the PID of the owner of each flock that the kernel shows, by device and inode as in /proc/locks.
// The kernel hides the flocks of processes in other containers. On some file systems stat(2) has another device
// number, so the keys do not match. Trying the flock would give a certain answer, but a process that tries it at
// the same moment would fail.
func flocks() map[string]int {
	text, _ := os.ReadFile("/proc/locks")
	taken := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		// 1: FLOCK  ADVISORY  WRITE 812 08:01:1234 0 EOF; a lock that waits has "->" after the number.
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" {
			continue
		}
		taken[f[5]], _ = strconv.Atoi(f[4])
	}
	return taken
}

// lockKey returns the key of a file in flocks, or "" if the file does not exist.
func lockKey(path string) string {
	var st unix.Stat_t
	if ignoringEINTR(func() error { return unix.Lstat(path, &st) }) != nil {
		return ""
	}
	dev := uint64(st.Dev)
	return fmt.Sprintf("%02x:%02x:%d", unix.Major(dev), unix.Minor(dev), st.Ino)
}

// program returns the name of the program that a process runs.
func program(pid int) string {
	name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.TrimSpace(string(name))
}
