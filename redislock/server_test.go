// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		fmt.Fprintln(os.Stderr, "redislock: redis-server is missing: apt-get install redis-server")
		os.Exit(1)
	}
	flag.Parse()
	// The tests wait for time to pass, each with a server of its own.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		flag.Set("test.parallel", "12")
	}
	os.Exit(m.Run())
}

// redis is a redis-server of a test, stopped when the test ends.
type redis struct {
	t    testing.TB
	dir  string
	addr string // host:port
	args []string

	mu  sync.Mutex
	cmd *exec.Cmd
	out *bytes.Buffer
}

// startServer starts a server without persistence, with more settings in args.
func startServer(t testing.TB, args ...string) *redis {
	t.Helper()
	s := &redis{t: t, dir: t.TempDir(), addr: freeAddr(t), args: args}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// freeAddr returns an address on which nobody listens. Another process can take
// it before the server does; then the server does not start and start tries the
// next.
func freeAddr(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (s *redis) start() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	_, port, _ := net.SplitHostPort(s.addr)
	base := []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", s.dir, "--daemonize", "no"}
	s.out = new(bytes.Buffer)
	s.cmd = exec.Command("redis-server", append(base, s.args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	// If the test is killed its servers go with it.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); !s.answers(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			s.cmd.Process.Kill()
			s.cmd.Wait()
			s.t.Fatalf("redis-server does not answer:\n%s", s.out)
		}
	}
}

// answers reports whether the server answers, if only that it wants a password.
func (s *redis) answers() bool {
	c, err := net.DialTimeout("tcp", s.addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprint(c, "PING\r\n")
	b := make([]byte, 64)
	n, _ := c.Read(b)
	return n > 0 && !strings.HasPrefix(string(b[:n]), "-LOADING")
}

// kill kills the server as kill -9 does.
func (s *redis) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

func (s *redis) restart() {
	s.t.Helper()
	s.kill()
	s.start()
}

// stop and cont stop the process and let it go on.
func (s *redis) stop() { s.cmd.Process.Signal(syscall.SIGSTOP) }
func (s *redis) cont() { s.cmd.Process.Signal(syscall.SIGCONT) }

func (s *redis) url() string { return "redis://" + s.addr }

// do sends a command as redis-cli would and returns the answer.
func (s *redis) do(args ...string) string {
	s.t.Helper()
	host, port, _ := net.SplitHostPort(s.addr)
	out, err := exec.Command("redis-cli", append([]string{"-h", host, "-p", port}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("redis-cli %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
