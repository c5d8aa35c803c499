// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
	"github.com/pawl-go/pawl/redislock/internal/cluster"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// clusterLinks are the links between one participant and all nodes.
type clusterLinks struct {
	conn.Nodes
	t testing.TB

	mu    sync.Mutex
	links map[string]*drivertest.Link // by the address of the node
	fault drivertest.Fault
}

// Dial goes through a link.
func (l *clusterLinks) Dial(ctx context.Context, addr string) (rueidis.Client, error) {
	l.mu.Lock()
	link := l.links[addr]
	if link == nil {
		link = drivertest.NewLink(l.t, addr)
		link.Set(l.fault)
		l.links[addr] = link
	}
	l.mu.Unlock()
	return l.Nodes.Dial(ctx, link.Addr())
}

func (l *clusterLinks) each(f func(*drivertest.Link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, link := range l.links {
		f(link)
	}
}

func (l *clusterLinks) set(f drivertest.Fault) {
	l.mu.Lock()
	l.fault = f
	l.mu.Unlock()
	l.each(func(link *drivertest.Link) { link.Set(f) })
}

// linkedCluster is a wire with links that can be cut.
type linkedCluster struct {
	driver.Store
	links *clusterLinks
}

func openClusterThrough(t testing.TB, url string, opts *Options) *linkedCluster {
	t.Helper()
	links := &clusterLinks{t: t, links: make(map[string]*drivertest.Link)}
	return &linkedCluster{openNodes(t, url, opts, func(n conn.Nodes) conn.Nodes { links.Nodes = n; return links }), links}
}

// openNodes opens a store of a cluster whose nodes are reached in another way.
func openNodes(t testing.TB, url string, opts *Options, through func(conn.Nodes) conn.Nodes) driver.Store {
	t.Helper()
	place, err := conn.Parse(url, opts.forURL())
	must(t, err)
	nodes, err := place.Nodes()
	must(t, err)
	s, err := newStore(opts)
	must(t, err)
	conf := s.config(opts, place.Shown, place.Contact)
	must(t, s.start(context.Background(), cluster.New(through(nodes), conf), conf))
	return s.driver()
}

// TestClusterWire has one cluster for all checks but those that restart theirs.
func TestClusterWire(t *testing.T) {
	t.Parallel()
	shared := clusterService(t, time.Minute)
	const recovery = 10 * time.Second
	wiretest.Run(t, wiretest.Harness{
		Start: func(t testing.TB) wiretest.Service {
			if strings.Contains(t.Name(), "restart") {
				return clusterService(t, recovery)
			}
			return shared
		},
		TTL:      2 * time.Second, // two waiters need half of it to connect and to join the queue
		Recovery: recovery + clusterRecovery,
		Parallel: true,
		Golden:   "testdata/wire-cluster.txt",
	})
}

// clusterService starts a cluster for leases of at most maxTTL.
func clusterService(t testing.TB, maxTTL time.Duration) wiretest.Service {
	opts := wireOptions(maxTTL)
	c := startCluster(t, 0)
	c.bless(opts)
	links := func(s driver.Store) *clusterLinks { return s.(*linkedCluster).links }
	return wiretest.Service{
		Open:    func(t testing.TB) driver.Store { return openClusterThrough(t, c.url(), opts) },
		Crash:   func(_ testing.TB, s driver.Store) { links(s).each((*drivertest.Link).Close) },
		Restart: func(testing.TB) { c.restart() },
		Cut:     func(_ testing.TB, s driver.Store) { links(s).set(drivertest.BlackHole) },
		Heal:    func(_ testing.TB, s driver.Store) { links(s).set(drivertest.Healthy) },
		Late: func(t testing.TB, s driver.Store, r *driver.Request) {
			_, _ = s.Ask(t.Context(), r) // it may fail
		},
	}
}
