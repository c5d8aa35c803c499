// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package job

import (
	"syscall"
	"time"
)

// Only Linux lets a process adopt its descendants. On other systems the job is the
// command's process group, and a process that leaves the group is lost.
func adoptOrphans() {}

type process struct{}

func (process) signal(syscall.Signal) {}

func children(int) []process { return nil }

func (*targets) strays() []process { return nil }

// led returns the group, also when its leader has been reaped: the processes of the job
// can only be found by their group.
func (t *targets) led() int { return t.group }

// notChild returns false: it cannot be certain here.
func notChild(int) bool { return false }

// reap reports whether the group has no process left. The job's processes are not our children
// here, so it reaps none.
func (j *Job) reap() bool { return !groupExists(j.PID()) }

func (t *targets) names() map[int]string {
	if !groupExists(t.group) {
		return nil
	}
	return map[int]string{t.group: "its process group"}
}

// wake sends CONT to all processes, because it cannot tell which are stopped.
func (t *targets) wake() { t.each(syscall.SIGCONT) }

// now is the clock for deadlines that processes exchange: the wall clock, which all
// processes share and which goes on while the machine sleeps. If somebody sets the clock,
// the guard acts early or late. That only matters when the wrapper is dead or stopped.
func now() int64 { return time.Now().UnixNano() }
