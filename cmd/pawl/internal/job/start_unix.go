// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"errors"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Job is a command that has been started.
type Job struct {
	spec   *Spec
	self   string    // the path of this program
	tty    *terminal // nil without one
	others []process // see targets
	ttou   bool      // TTOU has its default action in the command
	front  bool      // the command was in the foreground when we took the terminal back
	forced bool      // End was called

	started chan struct{} // closed when pid is known
	stops   chan syscall.Signal
	ended   chan struct{} // closed when status, or err, is known
	empty   chan struct{} // closed when no process of the job is left
	reaped  atomic.Bool   // the command itself has been reaped: see led

	mu      sync.Mutex
	pid     int // of the command, and of its group
	status  Status
	err     error
	guard   *guard
	adopted bool // the guard is dead: we have adopted the job's processes
	closed  bool
}

// Start runs the command. Close the job before you start the next one: on Linux this process
// adopts the processes that the command leaves running.
func Start(spec *Spec) (*Job, error) {
	self, err := executable()
	if err != nil {
		return nil, err
	}
	adoptOrphans()
	j := &Job{
		spec: spec, self: self, tty: openTerminal(), others: children(os.Getpid()),
		started: make(chan struct{}), stops: make(chan syscall.Signal, 1),
		ended: make(chan struct{}), empty: make(chan struct{}),
	}
	// We ignore TTOU, because it would stop us when we take the terminal back from the
	// background. Ignored has to be called before that.
	j.ttou = !Ignored(syscall.SIGTTOU)
	if j.tty != nil {
		signal.Ignore(syscall.SIGTTOU)
	}
	if err := j.startGuard(); err != nil {
		j.tty.close()
		return nil, err
	}
	select {
	case <-j.started:
	case <-j.ended:
	}
	if _, err := j.Status(); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil // it has ended already, or could not be executed
}

// PID returns the command's process id, which is its group's id too.
func (j *Job) PID() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pid
}

// Stops returns a channel for the signals that stop the command.
func (j *Job) Stops() <-chan syscall.Signal { return j.stops }

// Ended is closed when the command itself has ended.
func (j *Job) Ended() <-chan struct{} { return j.ended }

// Empty is closed when the command and every process that came from it have ended.
func (j *Job) Empty() <-chan struct{} { return j.empty }

// Status returns how the command has ended, or an error if nobody knows.
func (j *Job) Status() (Status, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.status, j.err
}

// hear handles a line of the guard: see guard.
func (j *Job) hear(line string) {
	word, rest, _ := strings.Cut(line, " ")
	n, _ := strconv.Atoi(rest) // "failed" has a text instead, and "empty" has nothing
	switch word {
	case "started":
		j.mu.Lock()
		j.pid = n
		j.mu.Unlock()
		closeOnce(j.started)
	case "failed":
		j.end(Status{}, errors.New(rest))
	case "stopped":
		select {
		case j.stops <- syscall.Signal(n):
		default: // the receiver has not read the last one yet
		}
	case "exited":
		j.reaped.Store(true)
		j.end(Status{Code: n}, nil)
	case "killed":
		j.reaped.Store(true)
		j.end(Status{Signal: syscall.Signal(n)}, nil)
	case "empty":
		closeOnce(j.empty)
	}
}

// end notes how the command has ended. Only the first call counts.
func (j *Job) end(status Status, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !isDone(j.ended) {
		j.status, j.err = status, err
		close(j.ended)
	}
}

// closeOnce closes a channel unless it is closed. One goroutine at a time may call it for c.
func closeOnce(c chan struct{}) {
	if !isDone(c) {
		close(c)
	}
}

func isDone(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (j *Job) isClosed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.closed
}

// Deadline tells the guard when the command must be gone. A later call replaces
// the time; the zero time means never.
func (j *Job) Deadline(t time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.guard.deadline(t)
}

// Retire takes the terminal back after the end of the command itself.
func (j *Job) Retire() { j.front = j.tty.takeBack(j.PID()) || j.front }

// Close ends the guard and takes the terminal back. The command must have ended; other
// processes of the job may go on. Close reports whether the command was in the
// foreground and INT has ended it, as Ctrl-C does: then call Interrupt.
func (j *Job) Close() (interrupted bool) {
	j.Retire()
	status, err := j.Status()
	if status.Signal != 0 || j.forced || err != nil {
		j.tty.restore() // the command had no time to restore the modes
	}
	j.tty.close()
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.guard.done()
	return j.front && status.Signal == syscall.SIGINT
}

// Interrupt ends this process by INT, as Ctrl-C ends a command. If pawl ended with an
// exit code instead, a shell would go on with the next command of its script.
//
// If the command alone was in the foreground, Ctrl-C reached the command and not the
// script that runs pawl, and some shells then go on all the same. With group, Interrupt
// therefore sends INT to our whole process group. A foreground command that sends INT to
// itself looks like Ctrl-C here.
func Interrupt(group bool) {
	signal.Reset(syscall.SIGINT)
	pid := os.Getpid()
	if group {
		pid = 0
	}
	_ = syscall.Kill(pid, syscall.SIGINT)
	time.Sleep(orphanWait) // the signal needs a moment to take effect
}
