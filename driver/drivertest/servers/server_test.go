// SPDX-License-Identifier: Apache-2.0

//go:build linux

package servers

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// newSleeper returns a server that serves nobody, once it has said so.
func newSleeper(says string) *Server {
	s := &Server{often: time.Millisecond}
	s.command = func() (*exec.Cmd, error) { return exec.Command("sh", "-c", says+"; exec sleep 1000"), nil }
	s.serves = func() bool { return strings.Contains(s.Output(), "ready") }
	return s
}

func TestServer(t *testing.T) {
	s := newSleeper("echo ready")
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	defer s.End()
	addr, pid := s.Addr, s.Pid()
	if l, err := net.ListenPacket("udp", addr); err == nil {
		l.Close()
		t.Errorf("%s is free", addr)
	}
	s.Stop()
	s.Cont()
	if !s.Alive() {
		t.Error("it has ended by being stopped")
	}
	s.Kill()
	if s.Alive() {
		t.Error("it lives on after Kill")
	}
	if err := s.Restart(); err != nil || !s.Alive() || s.Addr != addr || s.Pid() == pid {
		t.Errorf("Restart = %v: alive %v at %s, process %d", err, s.Alive(), s.Addr, s.Pid())
	}
	s.End()
	if l, err := net.ListenPacket("udp", addr); err != nil {
		t.Errorf("after End: %v", err)
	} else {
		l.Close()
	}
	if err := s.Start(); err == nil || s.Alive() {
		t.Errorf("Start after End = %v", err)
	}
}

// TestNoServer: a server that ends instead of serving gets another address each time,
// and in the end its log is shown.
func TestNoServer(t *testing.T) {
	addrs := make(map[string]bool)
	s := newSleeper("")
	s.command = func() (*exec.Cmd, error) {
		addrs[s.Addr] = true
		return exec.Command("sh", "-c", "echo my log; exit 1"), nil
	}
	defer s.End()
	if err := s.Begin(); err == nil || !strings.Contains(err.Error(), "my log") {
		t.Errorf("Begin = %v; want an error with the log", err)
	}
	if len(addrs) != 5 || s.Alive() {
		t.Errorf("it was started at %v; alive %v", addrs, s.Alive())
	}
	s.command = func() (*exec.Cmd, error) { return exec.Command("no-such-program-of-pawl"), nil }
	if err := s.Begin(); err == nil || !strings.Contains(err.Error(), "make deps") {
		t.Errorf("Begin = %v; want an error that says what to install", err)
	}
}
