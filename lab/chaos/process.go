// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// process is the process of a client. It ends when this program ends.
type process struct {
	dir   string // its working directory, where the file out has its output
	cmd   *exec.Cmd
	ended chan struct{}
}

func startProcess(dir string, args []string) (*process, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{dir: dir, cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.cmd.Wait(); close(p.ended) }()
	return p, nil
}

func (p *process) signal(s syscall.Signal) { p.cmd.Process.Signal(s) }

// kill ends the process with kill -9, and waits until it has ended.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// endsIn reports whether the process ends within patience. It kills the process if not.
func (p *process) endsIn(patience time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(patience):
		p.kill()
		return false
	}
}
