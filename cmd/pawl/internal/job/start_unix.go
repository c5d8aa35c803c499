// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Job is a command that has been started.
type Job struct {
	pid    int // of the command, and of its group
	grace  time.Duration
	guard  *guard
	tty    *terminal // nil without one
	events chan Event
	signal atomic.Int32 // that ended the command
	forced bool         // End was called
	others []process    // see targets
}

// Event is a change of the command.
type Event struct {
	Stopped syscall.Signal // not 0: the command was stopped by this signal
	Status  Status         // otherwise: the command has ended
}

// Start runs the command. Start it once per process: on Linux the process
// becomes the parent of what the command leaves behind, and it waits for all
// its children.
func Start(spec *Spec) (*Job, error) {
	self, err := executable()
	if err != nil {
		return nil, err
	}
	adoptOrphans()
	others := children(os.Getpid())
	g, err := startGuard(self, spec)
	if err != nil {
		return nil, fmt.Errorf("cannot start the guard process: %w", err)
	}
	// Before the command runs: the wrapper may be dead in the next moment.
	g.deadline(spec.Deadline)
	j := &Job{grace: spec.Grace, guard: g, others: others, tty: openTerminal(), events: make(chan Event, 1)}
	err = j.startStub(self, spec)
	go j.wait()
	if err != nil {
		j.Close()
		return nil, fmt.Errorf("cannot start %s: %w", spec.Path, err)
	}
	return j, nil
}

// startStub starts the command's process.
func (j *Job) startStub(self string, spec *Spec) error {
	sys := &syscall.SysProcAttr{Setpgid: true}
	// The child makes itself the foreground group from what is a background
	// group at that moment, which stops it with TTOU unless that is ignored.
	// The stub undoes it, which takes longer than all else that it does.
	undo := j.tty != nil && !Ignored(syscall.SIGTTOU)
	if j.tty != nil {
		signal.Ignore(syscall.SIGTTOU)
	}
	if j.tty.handOver() {
		sys.Foreground, sys.Ctty = true, j.tty.fd
	}
	inherit := []int{number(j.guard.w)}
	for _, f := range spec.Inherit {
		fd, err := duplicate(number(f))
		if err != nil {
			return err
		}
		defer syscall.Close(fd)
		inherit = append(inherit, fd)
	}
	args := append([]string{os.Args[0], stubArg, strconv.Itoa(inherit[0]), strconv.Itoa(os.Getpid()),
		strconv.FormatBool(undo), spec.Path}, spec.Args...)
	var err error
	j.pid, err = fork(self, args, &syscall.ProcAttr{Env: spec.Env, Files: []uintptr{0, 1, 2}, Sys: sys}, inherit)
	runtime.KeepAlive(spec)
	return err
}

// fork is ForkExec with descriptors that keep their numbers: a fixed number
// such as 3 might be one that the caller of this program has opened for the
// command. They can be inherited by any child for the moment; nothing else in
// this process starts one.
func fork(path string, args []string, attr *syscall.ProcAttr, inherit []int) (int, error) {
	for _, fd := range inherit {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return 0, fmt.Errorf("file descriptor %d: %w", fd, err)
		}
		defer syscall.CloseOnExec(fd)
	}
	return syscall.ForkExec(path, args, attr)
}

// duplicate returns a copy of a descriptor with a high number, or a lower one
// where the limit (ulimit -n) does not allow that.
func duplicate(fd int) (n int, err error) {
	for _, low := range []int{100, 10, 3} {
		if n, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, low); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("file descriptor %d: %w", fd, err)
}

// closeFrom closes the descriptors from n on that this process was started
// with. Its own, those of Go's runtime, are marked to be closed on exec; what
// has come through an exec is not.
func closeFrom(n int) {
	for _, fd := range descriptors() {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); fd >= n && err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// descriptors returns the numbers of the open files, or all that are usual.
func descriptors() (list []int) {
	entries, err := os.ReadDir("/dev/fd")
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil {
			list = append(list, fd)
		}
	}
	for fd := 0; err != nil && fd < 1024; fd++ {
		list = append(list, fd)
	}
	return list
}

// number returns f's descriptor without the side effects of Fd.
func number(f *os.File) int {
	n := -1
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { n = int(fd) })
	}
	return n
}

// PID returns the command's process id, which is its group's id too.
func (j *Job) PID() int { return j.pid }

// Events tells of the command's stops, and last of its end.
func (j *Job) Events() <-chan Event { return j.events }

// wait reaps all children: the command, and on Linux what was left to us. Only
// the command's changes are told.
func (j *Job) wait() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return // no child is left; the command was told before
		case pid == j.guard.pid:
			close(j.guard.gone)
		case pid != j.pid:
		case ws.Stopped():
			j.events <- Event{Stopped: ws.StopSignal()}
		case ws.Signaled():
			j.signal.Store(int32(ws.Signal()))
			j.events <- Event{Status: Status{Signal: ws.Signal()}}
		default:
			j.events <- Event{Status: Status{Code: ws.ExitStatus()}}
		}
	}
}

// Deadline tells the guard when the command must be gone unless it is told
// another time before; the zero time means never.
func (j *Job) Deadline(t time.Time) { j.guard.deadline(t) }

// Close ends the guard, without ending the command's processes, and takes the
// terminal back. The job must have ended. It reports whether the command was
// in the foreground and has died of INT, by Ctrl-C: then see Interrupt.
func (j *Job) Close() (interrupted bool) {
	signal := syscall.Signal(j.signal.Load())
	front := j.tty.takeBack(j.pid)
	if signal != 0 || j.forced {
		j.tty.restore() // the command had no time to
	}
	j.tty.close()
	j.guard.done()
	return front && signal == syscall.SIGINT
}

// Interrupt ends this process by INT, as Ctrl-C ends a command: shells go on
// with the next command of a script if they only see an exit code.
//
// If the keyboard told the command alone, which was in the foreground, a script
// that we are part of does not know, and some shells then go on all the same.
// So the whole group is told. A foreground command that sends itself INT cannot
// be told from Ctrl-C.
func Interrupt(group bool) {
	signal.Reset(syscall.SIGINT)
	pid := os.Getpid()
	if group {
		pid = 0
	}
	_ = syscall.Kill(pid, syscall.SIGINT)
	time.Sleep(orphanWait) // until it takes effect, if it does
}
