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

// watch is what the guard knows.
type watch struct {
	targets
	wrapper  int   // process id
	pipe     int   // what the wrapper says
	tell     int   // to the wrapper
	files    []int // that are the lock
	grace    time.Duration
	front    bool  // the command gets the terminal
	ttou     bool  // TTOU has its default action in it
	private  bool  // the files are the guard's alone
	deadline int64 // 0: none
	orphaned int64 // when the pipe closed, 0: it has not
	termed   bool  // TERM has been sent, by us or by the wrapper
	killed   bool
	done     bool
	nothing  atomic.Bool // is left of the command
}

// guardMain is the guard process. Arguments: what newWatch reads; the executable file, the command's words.
func guardMain(args []string) int {
	if len(args) < 3 {
		return 2
	}
	w, err := newWatch(args[0])
	if err != nil {
		return 2
	}
	setName("pawl-guard")
	keepOff()
	adoptOrphans()
	w.root = os.Getpid()
	if !w.start(args[1], args[2:]) {
		return 0
	}
	w.shed()
	go w.reap()
	w.run()
	return 0
}

// newWatch reads what Job.forkGuard writes.
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

// keepOff makes signals harmless that people send to "all of pawl": the wrapper ends us. They are
// caught and not ignored, so that they have their default effect in the command; what the caller
// ignores stays ignored there.
func keepOff() {
	caught := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM} {
		if !signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
}

// say tells the wrapper, which may be dead.
func (w *watch) say(format string, args ...any) {
	_, _ = unix.Write(w.tell, fmt.Appendf(nil, format+"\n", args...))
}

// reap waits for all children: the command, and what was left to us. When there is none, nothing
// is left of the command: on Linux whatever comes from it would be our child, or below one.
func (w *watch) reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			for groupExists(w.group) { // elsewhere
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

// run does the guard's work. Everything that the wrapper has said is heard
// before a deadline counts, and the clock is read before that: a guard that was
// stopped finds an old deadline in its memory, and newer ones in the pipe. So
// there is one thread of control, and no goroutine that may be late.
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
		w.kill(lastWait, w.nothing.Load)
		w.killed = true
	}
	// What has survived KILL, as a process of another user does, still works
	// under the lock.
	if w.orphaned != 0 && (w.killed && len(w.files) == 0 || w.nothing.Load()) {
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
