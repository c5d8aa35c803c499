// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watch is the state of a guard process.
type watch struct {
	targets
	wrapper  int   // process id
	pipe     int   // descriptor from which to read the wrapper's lines
	tell     int   // descriptor to which to write lines for the wrapper
	files    []int // descriptors of the files that are the lock
	grace    time.Duration
	front    bool  // the command gets the terminal
	ttou     bool  // TTOU has its default action in the command
	private  bool  // the command does not inherit files
	deadline int64 // when the command must be gone, by now(); 0: never
	orphaned int64 // when the pipe closed; 0: it is open
	termed   bool  // the guard or the wrapper has sent TERM
	killed   bool  // the guard has sent KILL
	done     bool
	nothing  atomic.Bool // no process of the job is left
}

// guardMain is the main function of the guard process. Its arguments are: the text that newWatch
// parses, the executable file, the command's words.
func guardMain(args []string) int {
	if len(args) < 3 {
		return 2
	}
	w, err := newWatch(args[0])
	if err != nil {
		return 2
	}
	_ = os.WriteFile("/proc/self/comm", []byte("pawl-guard"), 0) // on Linux, ps and top would show "exe"
	catchSignals()
	adoptOrphans()
	w.root = os.Getpid()
	if !w.start(args[1], args[2:]) {
		return 0
	}
	w.closeInherited()
	go w.reap()
	w.run()
	return 0
}

// newWatch parses the text that Job.forkGuard makes.
func newWatch(text string) (*watch, error) {
	w := &watch{targets: targets{reaped: new(atomic.Bool)}}
	n, err := fmt.Sscan(text, &w.wrapper, &w.pipe, &w.tell, &w.grace, &w.front, &w.ttou, &w.private)
	if err != nil {
		return nil, err
	}
	for _, word := range strings.Fields(text)[n:] {
		fd, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		w.files = append(w.files, fd)
	}
	syscall.CloseOnExec(w.pipe)
	syscall.CloseOnExec(w.tell)
	return w, nil
}

// catchSignals makes the guard survive signals that people send to every pawl process: the wrapper
// ends the guard. It catches the signals instead of ignoring them, because the command would
// inherit ignored signals. Signals that the caller ignores stay ignored in the command.
func catchSignals() {
	caught := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM} {
		if !signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
}

// say sends a line to the wrapper, which may be dead.
func (w *watch) say(format string, args ...any) {
	_, _ = unix.Write(w.tell, fmt.Appendf(nil, format+"\n", args...))
}

// reap waits for all children of the guard: the command, and the orphans that the guard has
// adopted. When the guard has no child, no process of the job is left: on Linux each would be
// a descendant of the guard.
func (w *watch) reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			for groupExists(w.group) { // on other systems the guard adopts no orphans
				time.Sleep(pollInterval)
			}
			w.nothing.Store(true)
			w.say("empty")
			return
		case pid != w.group:
		case ws.Stopped():
			w.say("stopped %d", ws.StopSignal())
		case ws.Signaled():
			w.reaped.Store(true)
			w.say("killed %d", ws.Signal())
		default:
			w.reaped.Store(true)
			w.say("exited %d", ws.ExitStatus())
		}
	}
}

// run is the main loop of the guard. In each round it reads the clock, then every
// line that the wrapper has sent, and only then acts on the deadline. The order
// matters for a guard that was stopped for a while: it remembers an old deadline, and
// newer ones wait in the pipe. For the same reason one goroutine does all this; a
// second one that reads the pipe could be late.
func (w *watch) run() {
	var line []byte
	for !w.done {
		wait(w.pipe, w.pause(), w.orphaned != 0)
		t := now()
		for w.orphaned == 0 && readable(w.pipe) {
			var b [512]byte
			n, err := unix.Read(w.pipe, b[:])
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

// wait waits for d, or until the open pipe is readable. It may return early: signals
// interrupt it, also the signals of Go's runtime.
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

// hearAll passes each complete line of b to hear and returns the rest.
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
	switch {
	case line == "done":
		w.done = true
	case line == "stopping":
		w.termed = true
	default:
		var n int64
		if _, err := fmt.Sscanf(line, "deadline %d", &n); err == nil {
			w.deadline = n
		}
	}
}

// plan returns when TERM and KILL are due, 0 for never. A living wrapper sends TERM
// earlier; the guard's TERM is for a wrapper that is stopped or hangs.
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

// act sends the signals that are due at the time t. It sets done when the guard has no
// more work.
func (w *watch) act(t int64) {
	if w.done {
		return
	}
	termAt, killAt := w.plan()
	if termAt != 0 && t >= termAt && !w.termed {
		w.terminate()
		w.termed = true
	}
	if killAt != 0 && t >= killAt && !w.killed {
		kill(w.each, w.nothing.Load)
		w.killed = true
	}
	// A process of another user survives KILL and still relies on the lock. While
	// there is one, a guard that has the lock's files stays, and keeps the lock.
	if w.orphaned != 0 && (w.killed && len(w.files) == 0 || w.nothing.Load()) {
		w.done = true
	}
}

// pause returns how long to wait before the next action, -1 for ever. While an action
// is due some day, the pause is at most about a second: timers stand still while the
// machine sleeps, but deadlines go on.
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
