// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package job

import (
	"syscall"
	"time"
)

// Only Linux lets a process adopt its descendants. Elsewhere a process that
// leaves the command's group is not found.
func adoptOrphans() {}

func setName(string) {}

type process struct{}

func (process) signal(syscall.Signal) {}

func children(int) []process { return nil }

func (*targets) strays() []process { return nil }

// led returns the group: without it the processes of the job are not found.
func (t *targets) led() int { return t.group }

// notChild is never sure.
func notChild(int) bool { return false }

// reap reports whether nothing is left of the job. Its processes are not our children here.
func (j *Job) reap() bool { return !groupExists(j.PID()) }

func (t *targets) names() map[int]string {
	if !groupExists(t.group) {
		return nil
	}
	return map[int]string{t.group: "its process group"}
}

// wake continues all, as it cannot be seen what has been stopped.
func (t *targets) wake() { t.each(syscall.SIGCONT) }

// now is the time for deadlines between processes. The wall clock is the one
// that they share and that goes on while the machine sleeps; a step of it
// makes the guard act early or late, and only matters when the wrapper is
// dead or stopped.
func now() int64 { return time.Now().UnixNano() }
