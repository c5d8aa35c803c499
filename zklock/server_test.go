// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// quickSweep has empty parents removed soon.
const quickSweep = "-Dznode.container.checkIntervalMs=300"

// tick is the tickTime of all servers of the tests.
const tick = 100 * time.Millisecond

// patience is for what takes no time unless the machine is very busy.
const patience = servers.Patience

var eventually = servers.Eventually

var shared struct {
	once   sync.Once
	server *server
	dir    string
}

func TestMain(m *testing.M) {
	if _, err := os.Stat(servers.Jar); err != nil {
		fmt.Fprintln(os.Stderr, "zklock: a ZooKeeper server is missing: apt-get install zookeeper")
		os.Exit(1)
	}
	flag.Parse()
	drivertest.Parallel()
	code := m.Run()
	if shared.server != nil {
		shared.server.End()
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
		must(t, err)
		s := newServer(dir)
		shared.dir, shared.server = dir, s
		must(t, s.Begin())
	})
	if shared.server == nil || !shared.server.Alive() {
		t.Fatal("the shared server has not started")
	}
	return shared.server
}

// server is one ZooKeeper server.
type server struct{ *servers.ZooKeeper }

// newServer returns a server that is not started yet, with more settings, of which those
// that begin with -D are for Java.
func newServer(dir string, settings ...string) *server {
	return &server{servers.NewZooKeeper(dir, append([]string{fmt.Sprint("tickTime=", tick.Milliseconds())}, settings...)...)}
}

// startServer starts a server of the test's own.
func startServer(t testing.TB, settings ...string) *server {
	t.Helper()
	s := newServer(t.TempDir(), settings...)
	t.Cleanup(s.End)
	must(t, s.Begin())
	return s
}

func (s *server) restart(t testing.TB) {
	t.Helper()
	if err := s.Restart(); err != nil {
		t.Error(err)
	}
}

func (s *server) url() string { return "zk://" + s.Addr }

// count returns a number that the server counts.
func (s *server) count(t testing.TB, name string) int {
	t.Helper()
	for line := range strings.Lines(s.Word("mntr")) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, err := strconv.ParseFloat(f[1], 64)
			must(t, err)
			return int(n)
		}
	}
	t.Fatalf("the server does not count %s", name)
	return 0
}
