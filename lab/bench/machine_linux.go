// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pinnedEnv is set in a process that runs on the clients' processor.
const pinnedEnv = "PAWL_BENCH_PINNED"

// pin restricts this program to the first processor if the machine has two: the servers get the
// second. With more processors, the kernel distributes the processes better than we could.
func pin() error {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	if all.Count() != 2 || os.Getenv(pinnedEnv) != "" {
		return nil
	}
	runtime.LockOSThread() // exec keeps the affinity of the calling thread
	first := processors(all)[0]
	if err := affinity(first); err != nil {
		return err
	}
	other := processors(all)[1]
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), fmt.Sprintf("%s=%d,%d", pinnedEnv, first, other)))
}

func processors(set unix.CPUSet) (list []int) {
	for cpu := 0; len(list) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list
}

// pinned returns the processors of clients and servers. ok is false if they share all processors.
func pinned() (clients, servers int, ok bool) {
	n, _ := fmt.Sscanf(os.Getenv(pinnedEnv), "%d,%d", &clients, &servers)
	return clients, servers, n == 2
}

func affinity(cpus ...int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return unix.SchedSetaffinity(0, &set)
}

// startOn starts cmd on the given processors. It sets them for its own thread first, because a process
// inherits the processors of the thread that starts it.
func startOn(cmd *exec.Cmd, cpus ...int) error {
	clients, _, ok := pinned()
	if !ok {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := affinity(cpus...); err != nil {
		return err
	}
	err := cmd.Start()
	if back := affinity(clients); err == nil {
		err = back
	}
	return err
}

// ownCPU returns the processor time that this process has used so far.
func ownCPU() time.Duration { return usage(unix.RUSAGE_SELF) }

func usage(who int) time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(who, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuOf returns the processor time that a process and its children have used so far, to a
// hundredth of a second. PostgreSQL has a child process for each connection.
func cpuOf(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may contain anything. Fields 14 and 15 are utime and stime; fields 16
	// and 17 are the same for children that have ended.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 15 {
		return 0, fmt.Errorf("cannot read /proc/%d/stat", pid)
	}
	var sum time.Duration
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every architecture that Go knows
	for _, s := range f[11:15] {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("cannot read /proc/%d/stat", pid)
		}
		sum += time.Duration(n) * tick
	}
	// The time of a child that ends meanwhile will be in the parent's fields the next time.
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, s := range strings.Fields(string(children)) {
		if child, err := strconv.Atoi(s); err == nil {
			used, _ := cpuOf(child)
			sum += used
		}
	}
	return sum, nil
}

// machine describes the machine, without its name.
func machine() []string {
	cpu := "unknown processor"
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			cpu = strings.TrimSpace(value)
			break
		}
	}
	var un unix.Utsname
	_ = unix.Uname(&un)
	memory := new(unix.Sysinfo_t)
	_ = unix.Sysinfo(memory)
	list := []string{
		fmt.Sprintf("%d processors (%s), %d GiB, Linux %s, %s", runtime.NumCPU(), cpu, (memory.Totalram*uint64(memory.Unit)+1<<29)>>30,
			unix.ByteSliceToString(un.Release[:]), runtime.Version()),
	}
	if _, _, ok := pinned(); ok {
		list[0] = strings.Replace(list[0], "1 processors", "2 processors", 1)
		list = append(list, "servers on one processor, clients on the other, over loopback")
	} else {
		list = append(list, "servers and clients on the same processors, over loopback")
	}
	return list
}
