// SPDX-License-Identifier: Apache-2.0

package job

import (
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// reap reaps our children that have ended, and reports whether no process of the job is left:
// we have no child except others. It is for a job that we have adopted because its guard was
// killed. One goroutine at a time may call it.
//
// Reading the states and parents of all processes is not enough: that takes a while, and a
// process that forks and exits again and again can escape every such list. Our own children
// cannot escape. When a child ends, the kernel makes its children ours in the same moment, and
// the dead child stays our child until we reap it; nobody else does. So as long as a process of
// the job is left, some child exists when the list begins and still exists when wait4 asks
// for it.
func (j *Job) reap() (none bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return false // our children may belong to the next job
	}
	list, err := candidates()
	none = err == nil
	for _, pid := range list {
		if slices.ContainsFunc(j.others, func(p process) bool { return p.pid == pid }) {
			continue // nobody reaps others, so their numbers are not reused
		}
		reaped, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		if err != syscall.ECHILD {
			none = false // also if it was dead: its children may have become ours after the list was made
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

// candidates returns process ids that include all our children. It joins two lists. The children
// file of the first thread has the adopted children, also those of other users, which /proc may
// hide. But some kernels lack that file, and if a child is reaped during the read, the read may miss another
// child. So candidates adds all processes of /proc.
func candidates() ([]int, error) {
	list, _ := listedChildren(os.Getpid())
	all, err := pids()
	return append(list, all...), err
}
