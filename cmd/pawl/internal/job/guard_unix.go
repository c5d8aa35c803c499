// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// guard is the wrapper's end of a guard process.
//
// The guard is told, one per line: "deadline N", in nanoseconds of now, 0 for
// none; "stopping", when the wrapper has sent TERM itself; "done", the farewell. It
// tells: "started PID"; "failed TEXT", when it cannot; "stopped SIGNAL", "exited CODE"
// and "killed SIGNAL" of the command; "empty", when nothing is left of it.
type guard struct {
	pid   int
	w     *os.File
	told  chan struct{} // closed when all that it has told was heard
	gone  chan struct{} // closed when the process has been reaped
	since time.Time
}

// part is how the program is to be started as a guard.
type part struct {
	arg  string   // which it is
	env  []string // of the process
	rest []string // arguments behind those that all have
}

// commandGuard is the guard that starts the command. It gets what the command gets, and closes it behind it.
func (j *Job) commandGuard() *part {
	rest := []string{strconv.FormatBool(j.tty.handOver()), strconv.FormatBool(j.ttou), strconv.FormatBool(j.spec.Private), j.spec.Path}
	return &part{guardArg, j.spec.Env, append(rest, j.spec.Args...)}
}

// nextGuard is the guard after one that was killed.
func (j *Job) nextGuard() *part {
	var others []string
	for _, p := range j.others {
		others = append(others, p.String())
	}
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return !strings.HasPrefix(s, "GO") })
	return &part{watchArg, env, []string{strconv.Itoa(j.PID()), strings.Join(others, ",")}}
}

// startGuard starts a guard process.
func (j *Job) startGuard(as func() *part) error {
	j.starts.Lock()
	defer j.starts.Unlock()
	if j.closed {
		return nil
	}
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
	g := &guard{w: w, told: make(chan struct{}), gone: make(chan struct{}), since: time.Now()}
	j.mu.Lock()
	g.deadline(j.spec.Deadline) // before the command runs: the wrapper may be dead in the next moment
	j.mu.Unlock()
	if err = g.start(j, as(), number(r), number(tell)); err != nil {
		w.Close()
		back.Close()
		return fmt.Errorf("cannot start the guard process: %w", err)
	}
	j.mu.Lock()
	j.guard = g
	g.deadline(j.spec.Deadline) // it may have moved
	j.mu.Unlock()
	go j.listen(g, back)
	go j.wait(g)
	return nil
}

func (g *guard) start(j *Job, as *part, r, tell int) error {
	inherit, numbers := []int{r, tell}, []string{}
	for _, f := range j.spec.Inherit {
		fd, err := duplicate(number(f))
		if err != nil {
			return err
		}
		defer syscall.Close(fd)
		inherit, numbers = append(inherit, fd), append(numbers, strconv.Itoa(fd))
	}
	args := append([]string{os.Args[0], as.arg, strconv.Itoa(os.Getpid()), strconv.Itoa(r), strconv.Itoa(tell),
		strings.Join(numbers, ","), strconv.FormatInt(int64(j.spec.Grace), 10)}, as.rest...)
	var err error
	g.pid, err = fork(j.self, args, &syscall.ProcAttr{
		Env: as.env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	}, inherit)
	runtime.KeepAlive(j.spec)
	return err
}

// listen hears what a guard tells.
func (j *Job) listen(g *guard, back *os.File) {
	defer close(g.told)
	defer back.Close()
	for lines := bufio.NewScanner(back); lines.Scan(); {
		j.hear(lines.Text())
	}
}

// wait waits for the end of a guard. One that is stopped alone is continued: the
// command's end would not be told.
func (j *Job) wait(g *guard) {
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(g.pid, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err == nil && ws.Stopped():
			_ = syscall.Kill(g.pid, syscall.SIGCONT)
		default:
			close(g.gone)
			<-g.told
			j.bereaved(g)
			return
		}
	}
}

// bereaved does what is to be done when a guard has ended that was not told to.
func (j *Job) bereaved(g *guard) {
	if j.isClosed() {
		return
	}
	j.mu.Lock()
	first, pid := !j.adopted, j.pid
	j.adopted = true
	j.mu.Unlock()
	select {
	case <-j.empty:
		return
	default:
	}
	switch {
	case pid == 0 || !adopts:
		// It may have started the command, and not told us. Elsewhere than on Linux
		// the command is nobody's child now, and does not tell how it ends.
		none := func() bool { return j.reap(0) }
		for !j.targets().kill(lastWait, none) && !j.isClosed() { // what cannot be ended keeps the lock
		}
		j.end(Status{}, errors.New("the guard process was killed"))
		closeOnce(j.empty)
		return
	case first:
		go j.adopt()
	}
	for wait := time.Second - time.Since(g.since); ; wait = time.Second {
		time.Sleep(wait) // whoever kills guards may go on with it
		if j.startGuard(j.nextGuard) == nil {
			return
		}
	}
}

func (j *Job) isClosed() bool {
	j.starts.Lock()
	defer j.starts.Unlock()
	return j.closed
}

// say sends a message. It does not wait for a guard that is stopped or dead:
// the wrapper can do its work without.
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

// done ends the guard and waits until it has gone: its files keep the lock, and
// in a container whose first process reaps nobody it would be a zombie for ever.
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
