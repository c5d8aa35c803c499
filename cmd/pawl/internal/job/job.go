// SPDX-License-Identifier: Apache-2.0

// Package job runs one command as a job that can be ended for certain.
//
// Three processes take part:
//
//	wrapper   the calling process. It is the command's parent, and on Linux
//	          the parent of everything that the command leaves behind.
//	command   the leader of a process group of its own, and the terminal's
//	          foreground group where the wrapper was that before.
//	guard     this program once more, in a session of its own, at the reading
//	          end of a pipe. It ends the command if the wrapper cannot, and
//	          until then it keeps the files that are the lock open: the command
//	          inherits them too, but may close them, as many programs do with
//	          all descriptors that they do not know.
//
// The command is started through a stub: this program once more, which tells
// the guard its process group and then becomes the command. The stub holds the
// pipe's other end until then. So the guard can see the pipe close in one of
// two cases only: the command was never run, or the guard knows its group.
// There is no moment in which killing the wrapper leaves a command without
// somebody to end it.
//
// The guard acts when the pipe closes without a farewell (the wrapper was
// killed), and when a deadline passes that the wrapper has not moved (it was
// stopped, or hangs).
//
// A program that imports the package is guard and stub as well: see init.
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
	Env  []string // see Tag

	// Tag has the form KEY=WORD. Env has an entry KEY, a list of words with
	// spaces between them, and only this job and those within it have WORD in
	// it. On Linux the guard finds by it what has left the process group.
	Tag string

	// Inherit are files that the guard and the command inherit. The command has
	// them under high numbers, where they are in nobody's way: scripts write
	// "exec 7>log".
	Inherit []*os.File

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
	guardArg = "__guard"
	stubArg  = "__exec"
)

// Codes of the stub when it cannot become the command, as env(1) and nohup(1)
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
