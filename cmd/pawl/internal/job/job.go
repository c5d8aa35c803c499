// SPDX-License-Identifier: Apache-2.0

// Package job runs a command, and can end the command and every process that it starts.
//
// Three processes take part, each the parent of the next:
//
//	wrapper   the calling process.
//	guard     this program once more, in a process group of its own. It starts
//	          the command, tells the wrapper how the command ends, and ends the command
//	          if the wrapper cannot. It keeps the files that are the lock open. The
//	          command inherits the files too, but many programs close all descriptors
//	          that they do not know.
//	command   the leader of a process group of its own. If the wrapper's group was the
//	          terminal's foreground group, the command's group replaces it.
//
// On Linux, wrapper and guard are both subreapers: when a process ends, the kernel makes
// its nearest subreaper the parent of its children. The children's process groups,
// sessions and open files do not matter. So one process always has all of the job below it:
//
//	all alive          the job is the descendants of the guard; it is empty when the
//	                   guard has no child left, and the kernel tells that
//	wrapper killed     the guard still has the whole job, and ends it
//	guard killed       the wrapper adopts the job, and ends it; the job is empty when the
//	                   wrapper has no child left
//	both killed        nobody ends the command; if the command has the lock's files (not
//	                   with Private), the lock is held until the command closes them
//
// The guard acts when its pipe closes without a farewell: the wrapper was killed. It
// also acts when a deadline passes that the wrapper did not move: the wrapper was stopped,
// or hangs. Before it starts the command it checks that the wrapper lives; after that the
// pipe tells it when the wrapper dies. So whenever the wrapper is killed, the guard ends
// the command.
//
// A program that imports the package also acts as guard: see init.
package job

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// Spec says what to run, and how to end it.
type Spec struct {
	Path string   // of the executable file
	Args []string // the command's words, the first of which is its name
	Env  []string

	// The guard inherits the files in Inherit. Unless Private, the command inherits them
	// too, under high numbers: scripts use low numbers themselves, as in "exec 7>log".
	Inherit []*os.File
	Private bool

	// Grace is the time from TERM to KILL. The command gets TERM so long before a
	// deadline, or when the wrapper dies, and KILL at most so much later.
	Grace time.Duration

	// Deadline is when the command must be gone, unless Job.Deadline moves it;
	// the zero time means never.
	Deadline time.Time
}

// Status is how a command ended.
type Status struct {
	Code   int            // its exit code, if Signal is 0
	Signal syscall.Signal // the signal that ended it, or 0
}

// ExitCode returns the code a shell would give: 128+n for signal n.
func (s Status) ExitCode() int {
	if s.Signal != 0 {
		return 128 + int(s.Signal)
	}
	return s.Code
}

func (s Status) String() string {
	if s.Signal != 0 {
		return fmt.Sprintf("signal %d (%v)", int(s.Signal), s.Signal)
	}
	return fmt.Sprintf("exit code %d", s.Code)
}

// Margin is how long before a deadline KILL is due, so that the processes are gone when
// the lease ends.
func Margin(grace time.Duration) time.Duration {
	return min(max(grace/10, 5*time.Millisecond), 500*time.Millisecond)
}

// The first argument tells this program to act as guard or stub.
const (
	guardArg = "__guard" // starts a command
	stubArg  = "__exec"  // becomes the command, in a terminal
)

// Exit codes for a command that cannot be started, the same as in env(1) and nohup(1).
const (
	CannotRun = 126
	NotFound  = 127
)

// Kind returns the word with which a message about CannotRun or NotFound begins.
func Kind(code int) string {
	if code == NotFound {
		return "not found"
	}
	return "cannot run"
}
