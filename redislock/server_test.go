// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

func lockKey(prefix, name string) string { return prefix + "{" + name + "}" }

func TestMain(m *testing.M) {
	if _, err := exec.LookPath(servers.RedisServer()); err != nil {
		fmt.Fprintf(os.Stderr, "redislock: %v: apt-get install redis-server\n", err)
		os.Exit(1)
	}
	flag.Parse()
	drivertest.Parallel()
	code := m.Run()
	closed := func() bool { return drivertest.Running("conn.(*Subscription).Keep") == 0 }
	if code == 0 && !servers.Eventually(patience, closed) {
		fmt.Fprintln(os.Stderr, "redislock: no test has closed some participants, which still subscribe")
		code = 1
	}
	os.Exit(code)
}

// redis is a redis-server of a test, stopped when the test ends.
type redis struct {
	*servers.Redis
	t  testing.TB
	id string // in a cluster
}

func newServer(t testing.TB, args ...string) *redis {
	s := &redis{Redis: servers.NewRedis(t.TempDir(), args...), t: t}
	t.Cleanup(s.End)
	return s
}

// startServer starts a server without persistence, with more settings in args.
func startServer(t testing.TB, args ...string) *redis {
	t.Helper()
	s := newServer(t, args...)
	s.begin()
	return s
}

// begin starts the server for the first time.
func (s *redis) begin() {
	s.t.Helper()
	must(s.t, s.Begin())
}

func (s *redis) kill() { s.Kill() }
func (s *redis) stop() { s.Stop() }
func (s *redis) cont() { s.Cont() }

func (s *redis) restart() {
	s.t.Helper()
	if err := s.Restart(); err != nil {
		s.t.Error(err)
	}
}

func (s *redis) url() string { return "redis://" + s.Addr }

// do sends a command as redis-cli would and returns the answer.
func (s *redis) do(args ...string) string {
	s.t.Helper()
	out, err := s.Do(args...)
	must(s.t, err)
	return out
}
