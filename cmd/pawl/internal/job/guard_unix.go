// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// guard is what the wrapper knows of its guard process.
//
// They send each other lines. The wrapper sends:
//
//	deadline N      when the command must be gone, in nanoseconds of now(); 0: never
//	stopping        the wrapper has sent TERM itself
//	done            the farewell: the guard ends
//
// The guard sends:
//
//	started PID     the command runs
//	failed TEXT     the command cannot be started
//	stopped SIGNAL  a signal has stopped the command
//	exited CODE     the command has ended
//	killed SIGNAL   a signal has ended the command
//	empty           no process of the job is left
type guard struct {
	pid  int
	w    *os.File
	told chan struct{} // closed when all lines of the guard have been read
	gone chan struct{} // closed when the process has been reaped
}

// startGuard starts the guard process, which starts the command. The guard inherits the
// command's environment and files, and closes the files when the command has started (see
// closeInherited).
func (j *Job) startGuard() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	back, tell, err := os.Pipe()
	if err != nil {
		w.Close()
		return err
	}
	defer tell.Close()
	j.guard = &guard{w: w, told: make(chan struct{}), gone: make(chan struct{})}
	j.guard.deadline(j.spec.Deadline) // now, before the command runs: later the wrapper may be dead
	if err = j.forkGuard(number(r), number(tell)); err != nil {
		w.Close()
		back.Close()
		return fmt.Errorf("cannot start the guard process: %w", err)
	}
	go j.listen(back)
	go j.wait()
	return nil
}

func (j *Job) forkGuard(r, tell int) error {
	inherit := []int{r, tell}
	say := fmt.Sprintln(os.Getpid(), r, tell, int64(j.spec.Grace), j.tty.handOver(), j.ttou, j.spec.Private)
	for _, f := range j.spec.Inherit {
		fd, err := duplicate(number(f))
		if err != nil {
			return err
		}
		defer syscall.Close(fd)
		inherit, say = append(inherit, fd), say+fmt.Sprintln(fd)
	}
	args := append([]string{os.Args[0], guardArg, say, j.spec.Path}, j.spec.Args...)
	var err error
	j.guard.pid, err = fork(j.self, args, &syscall.ProcAttr{
		Env: j.spec.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	}, inherit)
	runtime.KeepAlive(j.spec)
	return err
}

// listen reads the lines of the guard until the guard closes the pipe.
func (j *Job) listen(back *os.File) {
	defer close(j.guard.told)
	defer back.Close()
	for lines := bufio.NewScanner(back); lines.Scan(); {
		j.hear(lines.Text())
	}
}

// wait waits for the end of the guard. If somebody stops the guard, wait continues it: a
// stopped guard could not tell how the command ends.
func (j *Job) wait() {
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(j.guard.pid, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err == nil && ws.Stopped():
			_ = syscall.Kill(j.guard.pid, syscall.SIGCONT)
		default:
			close(j.guard.gone)
			<-j.guard.told
			j.guardLost()
			return
		}
	}
}

// guardLost ends the job if the guard has ended without being told to. Without a guard nobody
// would end the command if this process were killed, and nobody learns how the command ends.
// The guard may have started the command without telling us.
func (j *Job) guardLost() {
	if j.isClosed() || j.isEmpty() {
		return
	}
	j.mu.Lock()
	j.adopted = true
	j.mu.Unlock()
	if notChild(j.PID()) {
		j.reaped.Store(true) // the guard reaped it, and died before it told us
	}
	j.targets().terminate()
	grace := j.spec.Grace
	if !isDone(j.started) { // Start has not returned, so nobody watches the lease
		grace = 0
	}
	for end := time.Now().Add(grace); !j.reap() && time.Now().Before(end); time.Sleep(pollInterval) {
	}
	for !kill(j.SignalAll, j.reap) && !j.isClosed() { // while a process survives KILL, keep the lock
	}
	j.end(Status{}, errors.New("the guard process was killed, so pawl ended the command"))
	closeOnce(j.empty)
}

// say sends a line to the guard. If the guard is stopped or dead, say gives up after
// 10 ms: the wrapper does its work without the guard.
func (g *guard) say(format string, args ...any) {
	_ = g.w.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	fmt.Fprintf(g.w, format+"\n", args...)
}

func (g *guard) deadline(t time.Time) {
	if t.IsZero() {
		g.say("deadline 0")
		return
	}
	g.say("deadline %d", now()+int64(time.Until(t)))
}

// done ends the guard and waits until it has been reaped, for two reasons: the guard's
// files keep the lock, and in a container whose first process reaps nobody the guard
// would stay a zombie for ever.
func (g *guard) done() {
	g.say("done")
	g.w.Close()
	select {
	case <-g.gone:
		return
	case <-time.After(time.Second):
		_ = syscall.Kill(g.pid, syscall.SIGKILL)
	}
	select {
	case <-g.gone:
	case <-time.After(time.Second):
	}
}
