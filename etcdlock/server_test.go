// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
	}
	if _, err := exec.LookPath("etcd"); err != nil {
		fmt.Fprintln(os.Stderr, "etcdlock: etcd is missing: apt-get install etcd-server etcd-client")
		os.Exit(1)
	}
	flag.Parse()
	// The tests wait for time to pass, each with a server of its own.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		flag.Set("test.parallel", "8")
	}
	os.Exit(m.Run())
}

// patience is for what nothing but a machine that is overloaded delays.
const patience = 20 * time.Second

// member is an etcd server of a test, stopped when the test ends.
type member struct {
	t    testing.TB
	dir  string
	name string
	addr string // for clients, host:port
	peer string // for the other members
	args []string

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
	out   *output
}

// dataDir returns a directory in memory, where there is one: the servers sync
// after every write.
func dataDir(t testing.TB) string {
	if info, err := os.Stat("/dev/shm"); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "etcdlock-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// startServer starts a cluster of one, with more settings in args.
func startServer(t testing.TB, args ...string) *member {
	t.Helper()
	return startCluster(t, 1, args...)[0]
}

// startCluster starts n members. Heartbeats come every 50 ms and an election
// after 300 ms, so that etcd grants leases of one second.
func startCluster(t testing.TB, n int, args ...string) []*member {
	t.Helper()
	var ms []*member
	for range 5 { // somebody else may take the ports before the servers do
		if ms = tryCluster(t, n, args); ms != nil {
			return ms
		}
	}
	t.Fatal("etcd does not start")
	return nil
}

func tryCluster(t testing.TB, n int, args []string) []*member {
	dir := dataDir(t)
	ms := make([]*member, n)
	var initial []string
	for i := range ms {
		m := &member{t: t, name: fmt.Sprint("m", i), addr: drivertest.FreeAddr(t), peer: drivertest.FreeAddr(t)}
		m.dir = filepath.Join(dir, m.name)
		initial = append(initial, m.name+"=http://"+m.peer)
		ms[i] = m
	}
	for _, m := range ms {
		m.args = append([]string{
			"--name", m.name, "--data-dir", m.dir, "--logger", "zap", "--log-level", "warn",
			"--listen-client-urls", "http://" + m.addr, "--advertise-client-urls", "http://" + m.addr,
			"--listen-peer-urls", "http://" + m.peer, "--initial-advertise-peer-urls", "http://" + m.peer,
			"--initial-cluster", strings.Join(initial, ","), "--initial-cluster-token", dir,
			"--heartbeat-interval", "50", "--election-timeout", "300",
		}, args...)
	}
	return launch(t, ms)
}

// launch starts the members, or returns nil.
func launch(t testing.TB, ms []*member) []*member {
	for _, m := range ms {
		m.launch()
		t.Cleanup(m.kill)
	}
	for _, m := range ms {
		if !m.ready() {
			for _, m := range ms {
				t.Logf("%s: %s", m.name, m.out)
				m.kill()
			}
			return nil
		}
	}
	return ms
}

func (m *member) launch() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out = new(output)
	m.cmd = exec.Command("etcd", m.args...)
	m.cmd.Stdout, m.cmd.Stderr = m.out, m.out
	// If the test is killed its servers go with it.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) { cmd.Wait(); close(ended) }(m.cmd, m.ended)
}

// ready waits until this process, and not another on its port, answers.
func (m *member) ready() bool {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		select {
		case <-m.ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
		if exec.Command("etcdctl", "--endpoints", m.addr, "--command-timeout", "500ms", "get", "x").Run() == nil {
			return true
		}
	}
	return false
}

// kill kills the server as kill -9 does.
func (m *member) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cmd.Process.Kill()
	<-m.ended
}

func (m *member) restart() {
	m.t.Helper()
	m.kill()
	m.launch()
	if !m.ready() {
		m.t.Errorf("etcd does not start again:\n%s", m.out)
	}
}

// stop and cont stop the process and let it go on.
// stop returns when no thread of the server runs any more: the signal takes its time
// on a busy machine.
func (m *member) stop() {
	m.cmd.Process.Signal(syscall.SIGSTOP)
	eventually(10*time.Second, func() bool {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", m.cmd.Process.Pid))
		for _, task := range tasks {
			if stat, err := os.ReadFile(task); err == nil && !strings.Contains(string(stat), ") T ") {
				return false
			}
		}
		return true
	})
}
func (m *member) cont() { m.cmd.Process.Signal(syscall.SIGCONT) }

func (m *member) url() string { return "etcd://" + m.addr }

// ctl runs etcdctl and returns its output.
func (m *member) ctl(args ...string) string {
	m.t.Helper()
	out, err := exec.Command("etcdctl", append([]string{"--endpoints", m.addr}, args...)...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("etcdctl %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
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
