// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// reap reaps our children that have ended, and reports whether nothing is left of the job: there
// is no child but others. It is for a job that is ours since its guard was killed, and one goroutine at a
// time calls it.
//
// A look at the states and parents of all processes cannot tell that: it takes a while, and work that
// forks and exits is missed by it for ever. Children can be counted. When one ends, the kernel makes what it
// leaves our children in the same moment, and it stays a child itself until it is reaped, which
// nobody does but us. So as long as anything is left of the job, a child that is there
// when the list begins is still there when the kernel is asked for it.
func (j *Job) reap() (none bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return false // our children may be the next job's
	}
	list, err := candidates()
	none = err == nil
	for _, pid := range list {
		if slices.ContainsFunc(j.others, func(p process) bool { return p.pid == pid }) {
			continue // nobody reaps others: their numbers stay theirs
		}
		reaped, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		if err != syscall.ECHILD {
			none = false // also if it was dead: what it has left may have come after the list
		}
		if err == nil && reaped == j.pid {
			j.reaped.Store(true)
		}
	}
	return none
}

// notChild reports whether a process is certainly not our child, dead or alive.
func notChild(pid int) bool {
	return unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD
}

// candidates returns process ids, our children among them. The list of the first thread has the children of
// dead parents, also of other users, which /proc may hide; but some kernels lack it, and a child that is
// reaped while it is read leaves a gap.
func candidates() ([]int, error) {
	list, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	var pids []int
	for _, name := range append(strings.Fields(string(list)), names...) {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}
