// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest"
)

const (
	jar = "/usr/share/java/zookeeper.jar" // its manifest names most of what it needs

	classes = jar + ":/usr/share/java/slf4j-simple.jar:/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar"
)

// quickSweep has empty parents removed soon.
const quickSweep = "-Dznode.container.checkIntervalMs=300"

// tick is the tickTime of all servers of the tests.
const tick = 100 * time.Millisecond

var shared struct {
	once   sync.Once
	server *server
	dir    string
}

func TestMain(m *testing.M) {
	if url := os.Getenv(holdEnv); url != "" {
		hold(url)
	}
	if _, err := os.Stat(jar); err != nil {
		fmt.Fprintln(os.Stderr, "zklock: a ZooKeeper server is missing: apt-get install zookeeper")
		os.Exit(1)
	}
	flag.Parse()
	// The tests wait for time to pass.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		flag.Set("test.parallel", "12")
	}
	code := m.Run()
	if shared.server != nil {
		shared.server.kill()
		os.RemoveAll(shared.dir)
	}
	if e := ensembles.e; e != nil {
		e.end()
	}
	os.Exit(code)
}

// sharedServer returns a server that all tests use that do not disturb it.
func sharedServer(t testing.TB) *server {
	t.Helper()
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", "zklock-test")
		if err != nil {
			t.Fatal(err)
		}
		shared.dir = dir
		shared.server = startAlone(t, dir)
	})
	if shared.server == nil {
		t.Fatal("the shared server has not started")
	}
	return shared.server
}

// startServer starts a server of the test's own.
func startServer(t testing.TB, settings ...string) *server {
	t.Helper()
	s := startAlone(t, t.TempDir(), settings...)
	t.Cleanup(s.kill)
	return s
}

// server is one ZooKeeper server.
type server struct {
	dir  string
	addr string // host:port for clients

	defines []string // for Java

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
	out   *output
}

func startAlone(t testing.TB, dir string, settings ...string) *server {
	t.Helper()
	for range 5 { // somebody else may take the port before the server does
		s := &server{dir: dir, addr: drivertest.FreeAddr(t)}
		s.configure(t, settings...)
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
		if s.serves(patience) {
			return s
		}
		s.kill()
		t.Log("the server does not start")
	}
	t.Fatal("no server")
	return nil
}

// patience is for what takes no time unless the machine is very busy.
const patience = 30 * time.Second

// configure writes zoo.cfg, with more settings, of which those that begin with -D
// are for Java.
func (s *server) configure(t testing.TB, settings ...string) {
	t.Helper()
	_, port, _ := net.SplitHostPort(s.addr)
	s.defines, settings = nil, slices.Clone(settings)
	settings = slices.DeleteFunc(settings, func(line string) bool {
		define := strings.HasPrefix(line, "-D")
		if define {
			s.defines = append(s.defines, line)
		}
		return define
	})
	lines := append([]string{
		fmt.Sprint("tickTime=", tick.Milliseconds()), "dataDir=" + s.dir, "clientPort=" + port, "clientPortAddress=127.0.0.1",
		"admin.enableServer=false", "maxClientCnxns=0", "4lw.commands.whitelist=*", "maxSessionTimeout=120000",
	}, settings...)
	if err := os.WriteFile(s.config(), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *server) config() string { return filepath.Join(s.dir, "zoo.cfg") }

// start starts the process.
func (s *server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = new(output)
	args := append([]string{"-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dzookeeper.forceSync=no"}, s.defines...)
	args = append(args, "-cp", classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain", s.config())
	s.cmd = exec.Command("java", args...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	// If the test is killed its servers go with it.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) { cmd.Wait(); close(ended) }(s.cmd, s.ended)
	return nil
}

// serves waits until the server serves clients, and it is this one.
func (s *server) serves(d time.Duration) bool {
	return eventually(d, func() bool {
		select {
		case <-s.ended:
			return true
		default:
		}
		return strings.Contains(s.word("srvr"), "Mode:") && strings.Contains(s.word("conf"), s.dir)
	}) && s.alive()
}

func (s *server) alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// word sends one of the four-letter words and returns the answer.
func (s *server) word(w string) string {
	c, err := net.DialTimeout("tcp", s.addr, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	io.WriteString(c, w)
	b, _ := io.ReadAll(c)
	return string(b)
}

// kill kills the server as kill -9 does.
func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd.Process.Kill()
	<-s.ended
}

// stop and cont stop the process and let it go on.
// stop returns when no thread of the server runs any more: the signal takes its time
// on a busy machine.
func (s *server) stop() {
	s.cmd.Process.Signal(syscall.SIGSTOP)
	eventually(10*time.Second, func() bool {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
		for _, task := range tasks {
			if stat, err := os.ReadFile(task); err == nil && !strings.Contains(string(stat), ") T ") {
				return false
			}
		}
		return true
	})
}
func (s *server) cont() { s.cmd.Process.Signal(syscall.SIGCONT) }

func (s *server) restart(t testing.TB) {
	t.Helper()
	s.kill()
	if err := s.start(); err != nil || !s.serves(patience) {
		t.Errorf("the server does not start again (%v):\n%s", err, s.out)
	}
}

func (s *server) url() string { return "zk://" + s.addr }

// eventually calls f until it returns true, for at most d.
func eventually(d time.Duration, f func() bool) bool {
	for end := time.Now().Add(d); ; time.Sleep(10 * time.Millisecond) {
		if f() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
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

// count returns a number that the server counts.
func (s *server) count(t testing.TB, name string) int {
	t.Helper()
	for line := range strings.Lines(s.word("mntr")) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
	}
	t.Fatalf("the server does not count %s", name)
	return 0
}

// forget deletes the server's data.
func (s *server) forget(t testing.TB) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(s.dir, "version-2")); err != nil {
		t.Fatal(err)
	}
}
