// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/driver/storekit"
)

func TestMain(m *testing.M) {
	if _, err := exec.LookPath(servers.RedisServer()); err != nil {
		fmt.Fprintln(os.Stderr, "redlock: redis-server is missing: apt-get install redis-server")
		os.Exit(1)
	}
	flag.Parse()
	drivertest.Parallel()
	code := m.Run()
	closed := func() bool { return drivertest.Running("conn.(*Subscription).Keep") == 0 }
	if code == 0 && !servers.Eventually(patience, closed) {
		fmt.Fprintln(os.Stderr, "redlock: no test has closed some participants, which still subscribe")
		code = 1
	}
	os.Exit(code)
}

// patience is how long a test waits for what happens soon unless the machine is
// busy.
const patience = 45 * time.Second

var eventually = servers.Eventually

// redis is a redis-server of a test, stopped when the test ends.
type redis struct {
	*servers.Redis
	t testing.TB
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

// name has the nodes called by their own addresses: participants that reach them by others come
// later.
func (f fleet) name(t testing.TB, opts *Options) {
	t.Helper()
	d := openDriver(t, f.url(), opts)
	if !eventually(patience, func() bool {
		if g, err := d.TryAcquire(context.Background(), &driver.Request{Name: "named", Lease: rand.Text(), TTL: 500 * time.Millisecond, Renewed: true}); err == nil {
			g.Release(context.Background())
		}
		return !slices.ContainsFunc(f, func(s *redis) bool {
			return !strings.Contains(s.do("get", strings.TrimSpace(s.do("keys", "*epoch"+nodesSuffix))), ";"+isOpen+" ")
		})
	}) {
		t.Fatal("the nodes are not named")
	}
}

func startServer(t testing.TB, args ...string) *redis {
	s := &redis{Redis: servers.NewRedis(t.TempDir(), args...), t: t}
	t.Cleanup(s.End)
	if err := s.Begin(); err != nil {
		t.Error(err)
		return nil
	}
	return s
}

// bless ends the wait of servers that have just started.
func (f fleet) bless(t testing.TB, opts *Options) {
	t.Helper()
	patient := *storekit.OrDefault(opts)
	patient.NodeTimeout, patient.ConnectTimeout = patience, patience // all nodes have to answer, however busy the machine is
	if err := Bless(context.Background(), f.url(), &patient); err != nil {
		t.Fatal(err)
	}
}

func (f fleet) url() string {
	var addrs []string
	for _, s := range f {
		addrs = append(addrs, s.Addr)
	}
	return "redlock://" + strings.Join(addrs, ",")
}

func (s *redis) kill() { s.Kill() }
func (s *redis) stop() { s.Stop() }
func (s *redis) cont() { s.Cont() }

// restart kills the server and starts it again.
func (s *redis) restart() {
	if err := s.Restart(); err != nil {
		s.t.Error(err)
	}
}

// do sends a command as redis-cli would and returns the answer.
func (s *redis) do(args ...string) string {
	s.t.Helper()
	out, err := s.Do(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}
