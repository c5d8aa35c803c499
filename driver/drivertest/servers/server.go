// SPDX-License-Identifier: Apache-2.0

//go:build linux

package servers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Server is a process that serves clients at an address. Redis, Postgres, PgBouncer, ZooKeeper
// and Etcd embed it.
type Server struct {
	Addr string // host:port for clients; held from the first start to End
	Dir  string // directory of its files

	Env []string // environment of the process, in addition to ours
	Log string   // file to which the process's output is appended; empty: Output alone has it

	// Run starts the process: (*exec.Cmd).Start unless set.
	Run func(*exec.Cmd) error

	command func() (*exec.Cmd, error)
	// serves reports whether this process, and not another one on the same port, serves
	// clients.
	serves func() bool
	often  time.Duration // pause between calls of serves

	mu    sync.Mutex
	over  bool     // after End
	holds []func() // release addresses
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
	out   *Output
}

// Hold returns one more address, which s holds until End.
func (s *Server) Hold() (string, error) {
	addr, release, err := Hold()
	if err == nil {
		s.holds = append(s.holds, release)
	}
	return addr, err
}

// Begin starts the server for the first time, on a free port, and waits until it serves.
func (s *Server) Begin() error {
	return attempt(func() error {
		s.Addr = ""
		return s.Start()
	})
}

// attempt calls start up to five times, because a program that does not use Hold may take a
// port before the server does.
func attempt(start func() error) error {
	var errs []error
	for range 5 {
		err := start()
		if err == nil || errors.Is(err, exec.ErrNotFound) {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Start starts the process and waits until it serves. If it does not serve, Start kills it.
func (s *Server) Start() error {
	if err := s.Launch(); err != nil {
		return err
	}
	return s.Await()
}

// Launch starts the process unless it runs, and does not wait until it serves.
func (s *Server) Launch() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return errors.New("the server is not used any more")
	}
	if s.alive() {
		return nil
	}
	if s.Addr == "" {
		if s.Addr, err = s.Hold(); err != nil {
			return err
		}
	}
	cmd, err := s.command()
	if err != nil {
		return err
	}
	out := new(Output)
	if s.Log != "" {
		if out.file, err = os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return err
		}
	}
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, append(os.Environ(), s.Env...)
	cmd.WaitDelay = Patience // a child process of the server may keep the pipe open
	// If we are killed, the kernel kills the server.
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	run := s.Run
	if run == nil {
		run = (*exec.Cmd).Start
	}
	if err := run(cmd); err != nil {
		return fmt.Errorf("%w: make deps installs the servers", err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); out.file.Close(); close(ended) }()
	s.cmd, s.ended, s.out = cmd, ended, out
	return nil
}

// Await waits until the process serves. If it does not serve within Patience, Await kills it.
func (s *Server) Await() error {
	for end := time.Now().Add(Patience); s.Alive() && time.Now().Before(end); time.Sleep(s.often) {
		if s.serves() {
			return nil
		}
	}
	why := "does not serve after " + Patience.String()
	if !s.Alive() {
		why = "has ended"
	}
	s.Kill()
	return fmt.Errorf("%s at %s %s:\n%s", s.cmd.Path, s.Addr, why, s.Output())
}

// Alive reports whether the process runs or is stopped.
func (s *Server) Alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alive()
}

func (s *Server) alive() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// Kill kills the process as kill -9 does, and returns when it has ended.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		s.cmd.Process.Kill()
		<-s.ended
	}
}

// Quit continues the process and sends it a signal that ends it. It kills the process if it has not ended within
// patience.
func (s *Server) Quit(sig syscall.Signal, patience time.Duration) {
	if s.Alive() {
		s.Cont()
		_ = syscall.Kill(s.Pid(), sig)
		Eventually(patience, func() bool { return !s.Alive() })
	}
	s.Kill()
}

// End kills the process for good, and releases its addresses.
func (s *Server) End() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.Kill()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, release := range s.holds {
		release()
	}
	s.holds = nil
}

// Restart kills the process and starts it again, with the same data and address.
func (s *Server) Restart() error {
	s.Kill()
	var err error
	Eventually(Patience, func() bool { err = s.Start(); return err == nil })
	return err
}

// Pid returns the number of the process.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// Stop sends SIGSTOP and returns when all threads of the process have stopped. On a busy machine that
// takes a while.
func (s *Server) Stop() {
	s.mu.Lock()
	pid := s.cmd.Process.Pid
	s.cmd.Process.Signal(syscall.SIGSTOP)
	s.mu.Unlock()
	Eventually(Patience, func() bool {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, task := range tasks {
			if stat, err := os.ReadFile(task); err == nil && !strings.Contains(string(stat), ") T ") {
				return false
			}
		}
		return true
	})
}

// Cont continues the process if it was stopped.
func (s *Server) Cont() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		s.cmd.Process.Signal(syscall.SIGCONT) // returns an error if the process has ended
	}
}

// Output returns what the process has written since its last start.
func (s *Server) Output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out == nil {
		return ""
	}
	return s.out.String()
}

// Output keeps everything that is written to it.
type Output struct {
	mu   sync.Mutex
	b    bytes.Buffer
	file *os.File // gets it too, unless nil
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil {
		_, _ = o.file.Write(p)
	}
	return o.b.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Backup kills the server, copies dir, where the server has its data, and starts the server again.
// restore kills the server, copies the data back, and starts the server again.
func (s *Server) Backup(dir string) (restore func() error, err error) {
	copied := dir + ".backup"
	s.Kill()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		return nil, err
	}
	restore = func() error {
		s.Kill()
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := os.CopyFS(dir, os.DirFS(copied)); err != nil {
			return err
		}
		return s.Restart()
	}
	return restore, s.Restart()
}
