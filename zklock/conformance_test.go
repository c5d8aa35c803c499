// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// linked is a client with a link that can be cut.
type linked struct {
	*client
	link *drivertest.Link
}

const (
	suiteTTL   = 3 * time.Second
	suiteSlack = 2 * time.Second
)

var suiteLong = drivertest.LongTTL(suiteTTL, suiteSlack)

func options(ttl time.Duration) *Options {
	o := &Options{TickTime: tick}
	o.TTL = ttl
	return o
}

// openThrough opens a participant. It is closed when the test ends, also if it was "crashed".
func openThrough(t testing.TB, link *drivertest.Link, opts *Options) *linked {
	t.Helper()
	d, err := NewDriver(context.Background(), "zk://"+link.Addr(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return &linked{clientOn(d), link}
}

// left lists the nodes below those of names that begin with prefix.
func left(t testing.TB, s *server, prefix string) (nodes []string) {
	t.Helper()
	d := openThrough(t, drivertest.NewLink(t, s.Addr), options(suiteTTL))
	defer d.Close()
	n, err := d.wire.usual(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n.conn.Sync(d.wire.root)
	names, _, err := n.conn.Children(d.wire.root)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range names {
		if name, ok := decodeName(node); ok && strings.HasPrefix(name, prefix) {
			nodes = append(nodes, childrenOf(t, d.client, name)...)
		}
	}
	return nodes
}

func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, harness(suiteLong))
}

// harness is for leases of at most long. Tests that restart the server, and say so
// in their names, have one of their own.
func harness(long time.Duration) drivertest.Harness {
	return drivertest.Harness{
		Start: func(t testing.TB) drivertest.Store {
			var s *server
			long := long
			if strings.Contains(t.Name(), "restart") {
				s, long = startServer(t), min(long, drivertest.RestartTTL(suiteTTL, suiteSlack))
			} else {
				s = sharedServer(t)
			}
			return drivertest.Store{
				Open: func(t testing.TB) driver.Driver {
					p := openThrough(t, drivertest.NewLink(t, s.Addr), options(suiteTTL))
					// That of the longest leases, so that nobody waits for it later.
					if _, err := p.wire.session(context.Background(), purpose{long, true}); err != nil {
						t.Fatal(err)
					}
					return p
				},
				Late: func(t testing.TB, late time.Duration) driver.Driver {
					return openThrough(t, drivertest.SlowTo(t, s.Addr, late), options(suiteTTL))
				},
				Crash:   func(_ testing.TB, d driver.Driver) { d.(*linked).link.Close() },
				Restart: func(testing.TB) { s.restart(t) },
				Cut:     func(_ testing.TB, d driver.Driver) { d.(*linked).link.Set(drivertest.BlackHole) },
				Heal:    func(_ testing.TB, d driver.Driver) { d.(*linked).link.Set(drivertest.Healthy) },
				Left:    func(t testing.TB, prefix string) []string { return left(t, s, prefix) },
			}
		},
		TTL:       suiteTTL,
		Slack:     suiteSlack,
		Pause:     100 * time.Millisecond,
		Histories: 8,
		Parallel:  true,
	}
}
