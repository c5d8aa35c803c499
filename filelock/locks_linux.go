// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// flocks returns who has taken a flock of which file, as far as the kernel shows it: not that of
// processes in a container beside ours, and not on file systems that stat(2) gives another number.
// The key is as /proc/locks has it: device and inode. To try the flock would tell for certain, and would fail
// another process that tries it in the same moment.
func flocks() map[string]int {
	text, _ := os.ReadFile("/proc/locks")
	taken := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		// 1: FLOCK  ADVISORY  WRITE 812 08:01:1234 0 EOF; with "->" behind the number, one that waits.
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" {
			continue
		}
		taken[f[5]], _ = strconv.Atoi(f[4])
	}
	return taken
}

// lockKey returns the key of a file in flocks, or "" if there is none.
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
