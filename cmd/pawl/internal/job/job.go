// SPDX-License-Identifier: Apache-2.0

// Package job runs a command so that it and all that it starts can be ended.
//
// Three processes take part, each the parent of the next:
//
//	wrapper   the calling process.
//	guard     this program once more, in a process group of its own. It starts
//	          the command, tells the wrapper how it ends, and ends it if the wrapper
//	          cannot. It keeps the files that are the lock open: the command
//	          inherits them too, but may close them, as many programs do with
//	          all descriptors that they do not know.
//	command   the leader of a process group of its own, and the terminal's
//	          foreground group where the wrapper was that before.
//
// On Linux wrapper and guard are both subreapers: the kernel makes them the parent of
// every descendant whose own parent ends, in whatever group or session it is and
// whatever it has closed or forgotten. So there is always one that has them all:
//
//	all alive          the job is what descends from the guard, and it is empty when
//	                   the guard has no child left, which the kernel tells
//	wrapper killed     the guard still has them all, and ends them
//	guard killed       they are the wrapper's now, which ends them; the job is empty when the
//	                   wrapper has no child left
//	both killed        nobody ends the command; if it has the lock's files (not with Private),
//	                   the lock is held until it has closed them
//
// The guard acts when its pipe closes without a farewell (the wrapper was
// killed), and when a deadline passes that the wrapper has not moved (it was
// stopped, or hangs). It looks whether the wrapper lives before it starts the command, and hears of
// its end after that: there is no moment in which killing the wrapper leaves a
// command without somebody to end it.
//
// A program that imports the package is guard as well: see init.
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

	// Inherit are files that the guard and, unless Private, the command inherit. The command has
	// them under high numbers, where they are in nobody's way: scripts write
	// "exec 7>log".
	Inherit []*os.File
	Private bool

	// Grace is how long before a deadline, and at most how long after the end
	// of the wrapper, the command has between TERM and KILL.
	Grace time.Duration

	// Deadline is when the command must be gone, unless Job.Deadline moves it;
	// the zero time means never.
	Deadline time.Time
}

// Status is how a command ended.
type Status struct {
	Code   int            // its exit code, if Signal is 0
	Signal syscall.Signal // that ended it, or 0
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

// Margin is how long before a deadline KILL is sent, so that the processes are
// gone when the lease is.
func Margin(grace time.Duration) time.Duration {
	return min(max(grace/10, 5*time.Millisecond), 500*time.Millisecond)
}

// The first argument of this program in its other parts.
const (
	guardArg = "__guard" // starts a command
	stubArg  = "__exec"  // becomes the command, in a terminal
)

// Codes for a command that cannot be started, as env(1) and nohup(1)
// have them.
const (
	CannotRun = 126
	NotFound  = 127
)

// Kind is the word for such a code that begins a message to the user.
func Kind(code int) string {
	if code == NotFound {
		return "not found"
	}
	return "cannot run"
}
