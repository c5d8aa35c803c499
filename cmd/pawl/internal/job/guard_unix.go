// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// guard is the wrapper's end of the guard process.
//
// The guard is told, one per line: "group N", by the stub; "deadline N", in
// nanoseconds of now, 0 for none; "stopping", when the wrapper has sent TERM
// itself; "done", the farewell.
type guard struct {
	pid  int
	w    *os.File
	gone chan struct{} // closed when the process has been reaped
}

// startGuard starts the guard. It gets spec.Inherit, so that the lock is held
// until the guard has ended the job, whatever the command has closed. It gets
// none of the caller's files and not its directory, so that it keeps nothing
// else open: no pipe of the caller, no file system. Of the environment it gets
// the settings of Go's runtime only, so that it is no process of a job around
// this one by its tag.
func startGuard(self string, spec *Spec) (*guard, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	files := []uintptr{uintptr(number(r)), uintptr(number(null)), uintptr(number(null))}
	for _, f := range spec.Inherit {
		files = append(files, uintptr(number(f)))
	}
	pid, err := syscall.ForkExec(self,
		[]string{os.Args[0], guardArg, strconv.FormatInt(int64(spec.Grace), 10), spec.Tag, strconv.Itoa(len(files))},
		&syscall.ProcAttr{
			Dir:   "/",
			Env:   slices.DeleteFunc(os.Environ(), func(s string) bool { return !strings.HasPrefix(s, "GO") }),
			Files: files,
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
	runtime.KeepAlive(spec)
	if err != nil {
		w.Close()
		return nil, err
	}
	return &guard{pid: pid, w: w, gone: make(chan struct{})}, nil
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
