// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is a client process, seen from the parent.
type process struct {
	w     io.Writer
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

// startClient runs this program a second time, as a client process.
func startClient(w io.Writer, act, name, redis, account string) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{w: w, name: name, cmd: exec.Command(exe, act, name, redis, account)}
	p.cmd.Env = append(os.Environ(), clientEnv+"=1")
	p.cmd.Stderr = os.Stderr
	tether(p.cmd)
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = bufio.NewScanner(out)
	return p, p.cmd.Start()
}

// clientEnv is set in client processes. In tests it tells the test binary to act as a client.
const clientEnv = "PAWL_EXAMPLE_CLIENT"

func (p *process) tell(what string) { fmt.Fprintf(p.w, "    %-10s %s\n", p.name, what) }

// listen reports what the process says, until it reaches its pause or ends.
func (p *process) listen() (paused bool) {
	for p.lines.Scan() {
		if p.lines.Text() == "pause" {
			return true
		}
		p.tell(strings.TrimPrefix(p.lines.Text(), "says "))
	}
	return false
}

// stopInItsWork stops the process at its pause.
func (p *process) stopInItsWork() error {
	if !p.listen() {
		return fmt.Errorf("%s has ended too early", p.name)
	}
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	var status syscall.WaitStatus
	for !status.Stopped() {
		if _, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil && err != syscall.EINTR {
			return err
		}
	}
	p.tell("is stopped by SIGSTOP")
	_, err := p.in.Write([]byte{'.'})
	return err
}

func (p *process) goOn() error {
	p.tell("goes on, by SIGCONT")
	return p.cmd.Process.Signal(syscall.SIGCONT)
}

// end waits until the process ends.
func (p *process) end() error {
	if p.listen() {
		return fmt.Errorf("%s pauses again", p.name)
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// kill kills the process if it still runs.
func (p *process) kill() {
	p.in.Close()
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// startRedis starts a Redis server on a free port, and returns its URL.
func startRedis() (url string, stop func(), err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", nil, fmt.Errorf("%w: install it, with apt-get install redis-server or brew install redis", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "")
	tether(cmd)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, err
	}
	stop = func() { cmd.Process.Kill(); cmd.Wait() }
	timer := time.AfterFunc(20*time.Second, stop)
	for log := bufio.NewScanner(out); log.Scan(); {
		if strings.Contains(log.Text(), "Ready to accept connections") {
			timer.Stop()
			go io.Copy(io.Discard, out)
			return "redis://" + addr, stop, nil
		}
	}
	stop()
	return "", nil, fmt.Errorf("redis-server does not start on %s", addr)
}
