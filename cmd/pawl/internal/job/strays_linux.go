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

// adoptOrphans makes this process a subreaper: it becomes the parent of every
// descendant whose own parent ends, in any group or session. So none gets lost.
func adoptOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// now is the clock for deadlines that processes exchange: nanoseconds since the machine
// booted, including the time in which it slept.
func now() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return ts.Nano()
}

// process is what /proc says about a process.
type process struct {
	pid, parent, group int
	stopped, dead      bool   // dead: a zombie
	name               string // of its program
	began              string // start time: with pid, unique
}

func (p process) is(o process) bool { return p.pid == o.pid && p.began == o.began }

// signal sends sig to the process, and never to a later process with the same number:
// it takes the handle first, and then checks that the number still names the same process.
func (p process) signal(sig syscall.Signal) {
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return
	}
	defer handle.Release()
	if again, ok := readProcess(p.pid); ok && again.is(p) {
		_ = handle.Signal(sig)
	}
}

// led returns the group, or 0 when its leader has been reaped. When the last member has ended as
// well, another group may get the same number, long before the job ends. The members are still
// found without the group, because they descend from root.
func (t *targets) led() int {
	if t.reaped != nil && t.reaped.Load() {
		return 0
	}
	return t.group
}

// strays returns the living processes of the job that are not in the group.
func (t *targets) strays() []process { return t.find(t.isStray) }

// wake sends CONT to the stopped processes only: an editor that runs takes CONT as the
// signal to set up the terminal again.
func (t *targets) wake() {
	for _, p := range t.find(func(p process, all map[int]process) bool {
		return p.stopped && t.member(p, all)
	}) {
		p.signal(syscall.SIGCONT)
	}
}

func (t *targets) find(ok func(p process, all map[int]process) bool) []process {
	all := processes()
	var found []process
	for _, p := range all {
		if !p.dead && ok(p, all) {
			found = append(found, p)
		}
	}
	return found
}

func (t *targets) isStray(p process, all map[int]process) bool {
	if p.pid == t.root || p.pid == t.guard || p.pid == os.Getpid() || t.leads(p) {
		return false
	}
	return t.descends(p, all)
}

func (t *targets) descends(p process, all map[int]process) bool {
	// The loop is bounded: the entries of all were not read in one moment, so the
	// parents may form a ring.
	for range len(all) {
		if slices.ContainsFunc(t.others, p.is) {
			return false
		}
		if t.root != 0 && p.parent == t.root {
			return true
		}
		var ok bool
		if p, ok = all[p.parent]; !ok {
			return false
		}
	}
	return false
}

// member reports whether a process belongs to the job, in the group or outside it.
func (t *targets) member(p process, all map[int]process) bool {
	return t.leads(p) || t.isStray(p, all)
}

func (t *targets) leads(p process) bool { return p.group == t.led() && p.group != 0 }

// names returns the names of the programs of all living processes of the job.
func (t *targets) names() map[int]string {
	names := make(map[int]string)
	for _, p := range t.find(t.member) {
		names[p.pid] = p.name
	}
	return names
}

// children returns the children of a process that has started no child since its last
// exec. Those belong to its first thread.
func children(parent int) (found []process) {
	list, err := listedChildren(parent)
	if err != nil { // a kernel without such lists
		list, _ = pids()
	}
	for _, pid := range list {
		if p, ok := readProcess(pid); ok && p.parent == parent {
			found = append(found, p)
		}
	}
	return found
}

// listedChildren returns the kernel's list of the children of a process's first thread.
func listedChildren(parent int) ([]int, error) {
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	return numbers(strings.Fields(string(list))), err
}

func processes() map[int]process {
	list, _ := pids()
	all := make(map[int]process, len(list))
	for _, pid := range list {
		if p, ok := readProcess(pid); ok {
			all[pid] = p
		}
	}
	return all
}

// pids returns the ids of all processes that /proc shows.
func pids() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	return numbers(names), err
}

func numbers(words []string) (all []int) {
	for _, word := range words {
		if n, err := strconv.Atoi(word); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// readProcess returns false if there is no such process.
func readProcess(pid int) (process, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false
	}
	// The name, in parentheses, may contain anything, also parentheses.
	head, rest := string(b), ""
	if i := strings.LastIndexByte(head, ')'); i > 0 {
		head, rest = head[:i], head[i+1:]
	}
	_, name, _ := strings.Cut(head, "(")
	f := strings.Fields(rest)
	if len(f) < 20 {
		return process{}, false
	}
	parent, err1 := strconv.Atoi(f[1])
	group, err2 := strconv.Atoi(f[2])
	dead := f[0] == "Z" || f[0] == "X"
	return process{pid, parent, group, f[0] == "T", dead, name, f[19]}, err1 == nil && err2 == nil
}
