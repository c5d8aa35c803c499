// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package stage starts the servers of a run, and causes faults in them and in the network.
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

// Process is the process of a server or a client. It ends when this program ends.
type Process struct {
	Dir  string   // folder of its data, and its working directory
	Args []string // program and arguments
	Env  []string // environment, in addition to ours

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
}

// Log returns the file with the output of the process.
func (p *Process) Log() string { return filepath.Join(p.Dir, "out") }

// Start starts the process, unless it runs. A process that has ended is started again.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs() {
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
	go func(ended chan struct{}) { cmd.Wait(); close(ended) }(p.ended)
	return nil
}

// Kill ends the process with kill -9, and waits until it has ended.
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

// Term sends TERM to the process, and reports whether it ended within patience. If not, Term kills it.
func (p *Process) Term(patience time.Duration) bool {
	p.Signal(syscall.SIGCONT)
	p.Signal(syscall.SIGTERM)
	ok := p.Wait(patience)
	p.Kill()
	return ok
}

// Wait waits until the process has ended, and reports whether it has ended within patience.
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

// Runs reports whether the process was started and has not ended.
func (p *Process) Runs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs()
}

func (p *Process) runs() bool {
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

// PID returns the id of the process, or 0.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Wipe deletes everything in the folder of the process, except its output and the names in but.
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

// freePorts returns n free ports, below the ports that the kernel gives to connections.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(10000)))
		if err != nil {
			continue
		}
		defer l.Close() // at the end, so that all ports differ
		_, port, _ := net.SplitHostPort(l.Addr().String())
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("no port is free")
}

// errEnded says that a process has ended by itself. await then stops waiting.
var errEnded = errors.New("it has ended")

// await calls f until it returns nil or errEnded, for at most patience.
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

// program returns the command line of a server's program: the words in an environment variable, or else name.
func program(variable, name string) []string {
	if p := os.Getenv(variable); p != "" {
		return strings.Fields(p)
	}
	return []string{name}
}

// start is how long a server may take to start on a very busy machine.
const start = time.Minute
