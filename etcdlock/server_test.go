// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

func TestMain(m *testing.M) {
	if _, err := exec.LookPath("etcd"); err != nil {
		fmt.Fprintln(os.Stderr, "etcdlock: etcd is missing: apt-get install etcd-server etcd-client")
		os.Exit(1)
	}
	flag.Parse()
	drivertest.Parallel()
	os.Exit(m.Run())
}

// patience is for what nothing but a machine that is overloaded delays.
const patience = 45 * time.Second

// soon is for what is told, and would be found out after 20 s at the earliest if it were not.
const soon = 15 * time.Second

var eventually = servers.Eventually

// member is an etcd server of a test, stopped when the test ends.
type member struct {
	*servers.Etcd
	t testing.TB
}

// startServer starts a cluster of one, with more settings in args.
func startServer(t testing.TB, args ...string) *member {
	t.Helper()
	return startCluster(t, 1, args...)[0]
}

// startCluster starts n members.
func startCluster(t testing.TB, n int, args ...string) (ms []*member) {
	t.Helper()
	for _, m := range servers.StartEtcd(t, n, args...) {
		ms = append(ms, &member{m, t})
	}
	return ms
}

func (m *member) restart() {
	m.t.Helper()
	if err := m.Restart(); err != nil {
		m.t.Error(err)
	}
}

func (m *member) url() string { return "etcd://" + m.Addr }

// ctl runs etcdctl and returns its output.
func (m *member) ctl(args ...string) string {
	m.t.Helper()
	out, err := m.Ctl(args...)
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// metric returns a counter of the server.
func (m *member) metric(name string) float64 {
	m.t.Helper()
	resp, err := http.Get("http://" + m.Addr + "/metrics")
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	for line := range strings.Lines(string(all)) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				m.t.Fatal(err)
			}
			return n
		}
	}
	m.t.Fatalf("the server has no metric %s", name)
	return 0
}

// withUsers adds the user me, with the password secret and the least rights, and makes the server demand users.
func (m *member) withUsers() {
	m.t.Helper()
	for _, args := range [][]string{
		{"user", "add", "root:top"}, {"user", "grant-role", "root", "root"},
		{"user", "add", "me:secret"}, {"role", "add", "locks"}, {"role", "grant-permission", "locks", "readwrite", "--prefix", "pawl/"},
		{"user", "grant-role", "me", "locks"}, {"user", "add", "stranger:secret"}, {"auth", "enable"},
	} {
		m.ctl(args...)
	}
}
