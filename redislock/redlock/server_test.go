// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// redisServer is what is run; another server that speaks the protocol may be named.
var redisServer = cmp.Or(os.Getenv("PAWL_REDIS_SERVER"), "redis-server")

func TestMain(m *testing.M) {
	if _, err := exec.LookPath(redisServer); err != nil {
		fmt.Fprintln(os.Stderr, "redlock: redis-server is missing: apt-get install redis-server")
		os.Exit(1)
	}
	flag.Parse()
	// The tests wait for time to pass, each with servers of its own.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		flag.Set("test.parallel", "4")
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what happens soon unless the machine is
// busy.
const patience = 20 * time.Second

// eventually calls f until it returns true, or for limit.
func eventually(limit time.Duration, f func() bool) bool {
	for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		if f() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// redis is a redis-server of a test, stopped when the test ends.
type redis struct {
	t    testing.TB
	dir  string
	addr string // host:port
	args []string

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
	out   *output
}

// fleet is the servers of a test.
type fleet []*redis

// startFleet starts n servers without persistence, with more settings in args, and
// declares that nobody holds anything there.
func startFleet(t testing.TB, n int, opts *Options, args ...string) fleet {
	t.Helper()
	f := make(fleet, n)
	var wait sync.WaitGroup
	for i := range f {
		wait.Go(func() { f[i] = startServer(t, args...) })
	}
	wait.Wait()
	if t.Failed() {
		t.FailNow()
	}
	f.bless(t, opts)
	return f
}

// name has the nodes called by their own addresses, before participants that reach them
// by others come at the same time.
func (f fleet) name(t testing.TB, opts *Options) {
	t.Helper()
	d, err := NewDriver(context.Background(), f.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if !eventually(patience, func() bool {
		if g, err := d.TryAcquire(context.Background(), &driver.Request{Name: "named", Lease: rand.Text(), TTL: 500 * time.Millisecond, Renewed: true}); err == nil {
			g.Release(context.Background())
		}
		return !slices.ContainsFunc(f, func(s *redis) bool {
			return !strings.Contains(s.do("get", strings.TrimSpace(s.do("keys", "*epoch"))), f[0].addr)
		})
	}) {
		t.Fatal("the nodes are not named")
	}
}

func startServer(t testing.TB, args ...string) *redis {
	s := &redis{t: t, dir: t.TempDir(), args: args}
	for range 5 { // somebody else may take the port before the server does
		s.addr = drivertest.FreeAddr(t)
		if s.start() {
			t.Cleanup(s.kill)
			return s
		}
	}
	t.Errorf("redis-server does not start:\n%s", s.out)
	return nil
}

// bless ends the wait of servers that have just started.
func (f fleet) bless(t testing.TB, opts *Options) {
	t.Helper()
	if err := Bless(context.Background(), f.url(), opts); err != nil {
		t.Fatal(err)
	}
}

func (f fleet) url() string {
	var addrs []string
	for _, s := range f {
		addrs = append(addrs, s.addr)
	}
	return "redlock://" + strings.Join(addrs, ",")
}

// start starts the server and reports whether it is ready. That it is this one that
// answers, and not another on the same port, only its log tells.
func (s *redis) start() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, port, _ := net.SplitHostPort(s.addr)
	base := []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", s.dir, "--daemonize", "no"}
	s.out = new(output)
	s.cmd = exec.Command(redisServer, append(base, s.args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	// If the test is killed its servers go with it.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Error(err)
		return false
	}
	s.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) { cmd.Wait(); close(ended) }(s.cmd, s.ended)
	for end := time.Now().Add(patience); time.Now().Before(end); {
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

// restart kills the server and starts it again.
func (s *redis) restart() {
	s.kill()
	if !eventually(patience, s.start) {
		s.t.Errorf("redis-server does not start again:\n%s", s.out)
	}
}

// stop and cont stop the process and let it go on.
func (s *redis) stop() { s.cmd.Process.Signal(syscall.SIGSTOP) }
func (s *redis) cont() { s.cmd.Process.Signal(syscall.SIGCONT) }

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
