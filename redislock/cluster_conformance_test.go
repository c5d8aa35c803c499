// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
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

// clusterParticipant is a store with links that can be cut.
type clusterParticipant struct {
	*party
	links *clusterLinks
}

func openClusterThrough(t testing.TB, url string, opts *Options) *clusterParticipant {
	t.Helper()
	place, err := conn.Parse(url, opts.forURL())
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := place.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	links := &clusterLinks{Nodes: nodes, t: t, links: make(map[string]*drivertest.Link)}
	s, err := newStore(opts)
	if err != nil {
		t.Fatal(err)
	}
	conf := s.config(opts, place.Shown, place.Contact)
	if err := s.start(context.Background(), cluster.New(links, conf), conf); err != nil {
		t.Fatal(err)
	}
	p := asParty(s.driver())
	t.Cleanup(func() { p.Close() })
	return &clusterParticipant{p, links}
}

func TestClusterConformance(t *testing.T) {
	t.Parallel()
	const ttl = 2 * suiteTTL // two waiters need half of it to connect and to join the queue
	opts := &Options{MaxTTL: drivertest.LongTTL(ttl, suiteSlack)}
	opts.TTL = driverTTL
	shared := startCluster(t, 0)
	shared.bless(opts)
	drivertest.Run(t, drivertest.Harness{
		Start: func(t testing.TB) drivertest.Store {
			c, opts := shared, opts
			if strings.Contains(t.Name(), "restart") { // which would disturb the others
				own := *opts
				own.MaxTTL = drivertest.RestartTTL(ttl, suiteSlack)
				c, opts = startCluster(t, 0), &own
				c.bless(opts)
			}
			links := func(d driver.Driver) *clusterLinks { return d.(*clusterParticipant).links }
			return drivertest.Store{
				Open:    func(t testing.TB) driver.Driver { return openClusterThrough(t, c.url(), opts) },
				Crash:   func(_ testing.TB, d driver.Driver) { links(d).each((*drivertest.Link).Close) },
				Restart: func(testing.TB) { c.restart() },
				Cut:     func(_ testing.TB, d driver.Driver) { links(d).set(drivertest.BlackHole) },
				Heal:    func(_ testing.TB, d driver.Driver) { links(d).set(drivertest.Healthy) },
			}
		},
		TTL:       ttl,
		Slack:     suiteSlack,
		Pause:     10 * suitePause, // the first request to a node connects to it
		Recovery:  opts.MaxTTL + clusterRecovery,
		Histories: 8,
		Parallel:  true,
		Golden:    "testdata/conformance-cluster.txt",
	})
}
