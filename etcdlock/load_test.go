// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

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

// watches returns how many watches the server has.
func (m *member) watches() float64 { return m.metric("etcd_debugging_mvcc_watcher_total") }

// TestManyLeases renews many leases of one client for two TTLs. On a machine that is too slow for that it tries longer ones.
func TestManyLeases(t *testing.T) {
	n := 1000
	if testing.Short() || raceEnabled {
		n = 300
		t.Parallel() // 1,000 need the machine
	}
	m := startServer(t)
	var err error
	for ttl := 12 * time.Second; ttl < 2*patience; ttl *= 2 {
		if err = manyLeases(t, m, n, ttl); err == nil {
			return
		}
		t.Logf("with a TTL of %v: %v", ttl, err)
	}
	t.Fatalf("a lease was lost: %v", err)
}

func manyLeases(t *testing.T, m *member, n int, ttl time.Duration) error {
	c := openClient(t, m.url(), ttl)
	defer c.Close()
	leases := make([]*pawl.Lease, n)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for j := i; j < n; j += 64 {
				l, err := c.Acquire(t.Context(), strconv.Itoa(j))
				if err != nil {
					t.Errorf("Acquire = %v", err)
					return
				}
				leases[j] = l
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	time.Sleep(2 * ttl)
	for _, l := range leases {
		if err := l.Err(); err != nil {
			return err
		}
	}
	return nil
}
