// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"bytes"
	"cmp"
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

	"github.com/pawl-go/pawl/driver/drivertest"
)

// serverProgram is the server under test: $PAWL_REDIS_SERVER may name another
// one, such as valkey-server.
var serverProgram = cmp.Or(os.Getenv("PAWL_REDIS_SERVER"), "redis-server")

func TestMain(m *testing.M) {
	if url := os.Getenv(childEnv); url != "" {
		childMain(url)
		return
	}
	if _, err := exec.LookPath(serverProgram); err != nil {
		fmt.Fprintf(os.Stderr, "redislock: %v: apt-get install redis-server\n", err)
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
	t       testing.TB
	program string
	dir     string
	addr    string // host:port
	args    []string
	env     []string // of the process, besides our own
	id      string   // in a cluster

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
	out   *output
}

// startServer starts a server without persistence, with more settings in args.
func startServer(t testing.TB, args ...string) *redis {
	t.Helper()
	s := &redis{t: t, dir: t.TempDir(), args: args, program: serverProgram}
	s.begin()
	return s
}

// begin starts the server for the first time.
func (s *redis) begin() {
	s.t.Helper()
	for range 5 { // somebody else may take the port before the server does
		s.addr = drivertest.FreeAddr(s.t)
		if s.start() {
			s.t.Cleanup(s.kill)
			return
		}
	}
	s.t.Fatalf("redis-server does not start:\n%s", s.out)
}

// start starts the server and reports whether it is ready. That it is this one
// that answers, and not another on the same port, only its log tells.
func (s *redis) start() bool {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	_, port, _ := net.SplitHostPort(s.addr)
	base := []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", s.dir, "--daemonize", "no"}
	s.out = new(output)
	s.cmd = exec.Command(s.program, append(base, s.args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	s.cmd.Env = append(os.Environ(), s.env...)
	// If the test is killed its servers go with it.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) { cmd.Wait(); close(ended) }(s.cmd, s.ended)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if strings.Contains(s.out.String(), "Ready to accept connections") {
			return true
		}
		select {
		case <-s.ended:
			return false
		case <-time.After(2 * time.Millisecond):
		}
	}
	s.cmd.Process.Kill()
	<-s.ended
	return false
}

// output is what a process has written so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// kill kills the server as kill -9 does.
func (s *redis) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd.Process.Kill()
	<-s.ended
}

func (s *redis) restart() {
	s.t.Helper()
	s.kill()
	if !eventually(patience, s.start) {
		s.t.Errorf("redis-server does not start again:\n%s", s.out)
	}
}

// stop and cont stop the process and let it go on.
func (s *redis) stop() { s.cmd.Process.Signal(syscall.SIGSTOP) }
func (s *redis) cont() { s.cmd.Process.Signal(syscall.SIGCONT) }

func (s *redis) url() string { return "redis://" + s.addr }

// do sends a command as redis-cli would and returns the answer.
func (s *redis) do(args ...string) string {
	s.t.Helper()
	host, port, _ := net.SplitHostPort(s.addr)
	at := []string{"-h", host, "-p", port}
	out, err := exec.Command("redis-cli", append(at, args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("redis-cli %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
