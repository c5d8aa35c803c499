// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"bytes"
	"fmt"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watch is what the guard knows.
type watch struct {
	targets
	grace    time.Duration
	deadline int64 // 0: none
	orphaned int64 // when the pipe closed, 0: it has not
	termed   bool  // TERM has been sent, by us or by the wrapper
	killed   bool
	done     bool
	holds    bool // inherited files, which are the lock
}

// guardMain is the guard process. Arguments: the grace in nanoseconds, the tag of
// the command's processes, and how many of the open files are for the guard.
func guardMain(args []string) int {
	if len(args) != 3 {
		return 2
	}
	grace, err1 := strconv.ParseInt(args[0], 10, 64)
	files, err2 := strconv.Atoi(args[2])
	if err1 != nil || err2 != nil {
		return 2
	}
	closeFrom(files)
	// Whoever ends "all of pawl" politely ends the wrapper, which ends us.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	w := &watch{grace: time.Duration(grace), targets: targets{tag: args[1]}, holds: files > 3}
	w.run(0)
	return 0
}

// run does the guard's work. Everything that the wrapper has said is heard
// before a deadline counts, and the clock is read before that: a guard that was
// stopped finds an old deadline in its memory, and newer ones in the pipe. So
// there is one thread of control, and no goroutine that may be late.
func (w *watch) run(pipe int) {
	var line []byte
	for !w.done {
		wait(pipe, w.pause(), w.orphaned != 0)
		t := now()
		for w.orphaned == 0 && readable(pipe) {
			var b [512]byte
			n, err := unix.Read(pipe, b[:])
			switch {
			case n > 0:
				line = w.hearAll(append(line, b[:n]...))
			case err != unix.EINTR && err != unix.EAGAIN:
				w.orphaned = now()
			}
		}
		w.act(t)
	}
}

// wait waits for d, or until the pipe, if it is open, can be read. It may
// return early, as signals, also those of Go's runtime, interrupt it.
func wait(pipe int, d time.Duration, closed bool) {
	if closed {
		time.Sleep(d)
		return
	}
	ms := -1
	if d >= 0 {
		ms = int((d + time.Millisecond - 1) / time.Millisecond)
	}
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(pipe), Events: unix.POLLIN}}, ms)
}

func readable(pipe int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pipe), Events: unix.POLLIN}}, 0)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// hearAll hears the complete lines of b and returns the rest.
func (w *watch) hearAll(b []byte) (rest []byte) {
	for {
		line, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			return b
		}
		w.hear(string(line))
		b = rest
	}
}

func (w *watch) hear(line string) {
	var n int64
	switch {
	case line == "done":
		w.done = true
	case line == "stopping":
		w.termed = true
	default:
		if _, err := fmt.Sscanf(line, "group %d", &n); err == nil {
			w.group = int(n)
		} else if _, err := fmt.Sscanf(line, "deadline %d", &n); err == nil {
			w.deadline = n
		}
	}
}

// plan returns when TERM and KILL are due, 0 for never. While the wrapper
// lives it comes first, and the guard's TERM only if it sleeps.
func (w *watch) plan() (term, kill int64) {
	if w.deadline != 0 {
		kill = w.deadline - int64(Margin(w.grace))
		term = w.deadline - int64(w.grace) + int64(Margin(w.grace))
	}
	if w.orphaned != 0 {
		term = w.orphaned
		if end := w.orphaned + int64(w.grace); kill == 0 || end < kill {
			kill = end
		}
	}
	return term, kill
}

// act does what is due at the time t, and ends the guard when nothing is left to
// do.
func (w *watch) act(t int64) {
	if w.done {
		return
	}
	term, kill := w.plan()
	if term != 0 && t >= term && !w.termed {
		w.terminate()
		w.termed = true
	}
	if kill != 0 && t >= kill && !w.killed {
		w.kill(lastWait)
		w.killed = true
	}
	// What has survived KILL, as a process of another user does, still works
	// under the lock.
	if w.orphaned != 0 && (w.killed && !w.holds || w.empty()) {
		w.done = true
	}
}

// pause returns how long to wait for the next action, -1 for ever. It is never
// long while there is one, because timers stand still while the machine sleeps
// and deadlines do not.
func (w *watch) pause() time.Duration {
	if w.orphaned != 0 {
		if w.killed {
			return time.Second // it may take days
		}
		return pollInterval
	}
	term, kill := w.plan()
	next := kill
	if !w.termed {
		next = term
	}
	if next == 0 || w.killed {
		return -1
	}
	return min(max(time.Duration(next-now()), 0), time.Second) + time.Millisecond
}
