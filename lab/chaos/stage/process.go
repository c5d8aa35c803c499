// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package stage starts the servers that a run is about, and does to them what breaks
// locks.
package stage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a server's process. It goes when this program goes.
type Process struct {
	Dir  string   // its data, and where it runs
	Args []string // with the program
	Env  []string // besides the environment

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
}

// Log is the file of what the process writes.
func (p *Process) Log() string { return filepath.Join(p.Dir, "out") }

// Start starts the process, unless it runs.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return nil
	}
	out, err := os.OpenFile(p.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(p.Args[0], p.Args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.Dir, out, out
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.ended = cmd, make(chan struct{})
	started.Lock()
	started.all = append(started.all, p)
	started.Unlock()
	go func(ended chan struct{}) { cmd.Wait(); close(ended) }(p.ended)
	return nil
}

// Kill is kill -9. It returns when the process is gone.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	p.cmd.Process.Kill()
	<-p.ended
	p.cmd = nil
}

// Term asks the process to end, and reports whether it did in time; else it is killed.
func (p *Process) Term(patience time.Duration) bool {
	p.Signal(syscall.SIGCONT)
	p.Signal(syscall.SIGTERM)
	ok := p.Wait(patience)
	p.Kill()
	return ok
}

// Wait waits until the process has ended, and reports false if it has not in time.
func (p *Process) Wait(patience time.Duration) bool {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	if cmd == nil {
		return true
	}
	select {
	case <-ended:
		return true
	case <-time.After(patience):
		return false
	}
}

// Runs reports whether the process has not ended by itself.
func (p *Process) Runs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		p.cmd.Process.Signal(s)
	}
}

// PID is that of the process, or 0.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Wipe deletes what the process has written below its folder, but for some names.
func (p *Process) Wipe(but ...string) error {
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		keep := e.Name() == "out"
		for _, b := range but {
			keep = keep || e.Name() == b
		}
		if !keep {
			if err := os.RemoveAll(filepath.Join(p.Dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// freePorts returns n free ports, below those that the kernel gives to connections.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(10000)))
		if err != nil {
			continue
		}
		defer l.Close() // in the end, so that all differ
		_, port, _ := net.SplitHostPort(l.Addr().String())
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("no port is free")
}

// started has all processes that were started, to end those of a topology that did not come up.
var started struct {
	sync.Mutex
	all []*Process
}

func killBelow(dir string) {
	started.Lock()
	defer started.Unlock()
	for _, p := range started.all {
		if strings.HasPrefix(p.Dir, dir+string(filepath.Separator)) {
			p.Kill()
		}
	}
}

// errEnded says that a process has ended by itself, for which nobody need wait.
var errEnded = errors.New("it has ended")

// await calls f until it returns nil.
func await(what string, patience time.Duration, f func() error) error {
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = f(); err == nil {
			return nil
		}
		if errors.Is(err, errEnded) {
			break
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// program returns the name of a server's program, which a variable may replace.
func program(variable, name string) []string {
	if p := os.Getenv(variable); p != "" {
		return strings.Fields(p)
	}
	return []string{name}
}

// start is how long a server may take to start on a machine that is very busy.
const start = time.Minute
