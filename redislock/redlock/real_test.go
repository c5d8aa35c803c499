// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
)

// through is a store with links that can be cut.
type through struct {
	*store
	links []*drivertest.Link
}

// openThrough opens a participant. It is closed when the test ends, also if it was "crashed".
func openThrough(t testing.TB, f fleet, opts *Options) *through {
	t.Helper()
	return openSlow(t, f, opts, 0)
}

// openSlow is openThrough with links over which a round trip takes trip.
func openSlow(t testing.TB, f fleet, opts *Options, trip time.Duration) *through {
	t.Helper()
	p := new(through)
	var addrs []string
	for _, s := range f {
		link := drivertest.SlowTo(t, s.Addr, trip)
		p.links = append(p.links, link)
		addrs = append(addrs, link.Addr())
	}
	own := *opts
	if trip > 0 { // a connection is given up after a quarter of TTL: trip and what a busy machine adds
		own.TTL, own.NodeTimeout = own.MaxTTL, own.MaxTTL/10
	}
	var err error
	if p.store, err = connect(context.Background(), "redlock://"+strings.Join(addrs, ","), &own); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func (p *through) set(f drivertest.Fault) {
	for _, l := range p.links {
		l.Set(f)
	}
}

// left lists the keys of names that begin with prefix, but for the last tokens and for
// the marks of attempts that have ended, which expire.
func (s *redis) left(prefix string) (keys []string) {
	for key := range strings.Lines(s.do("keys", "*"+prefix+"*")) {
		key = strings.TrimSpace(key)
		if key != "" && !strings.HasSuffix(key, floorSuffix) && !strings.Contains(key, markSuffix) {
			keys = append(keys, key)
		}
	}
	return keys
}

const suiteTTL = 5 * time.Second

// harness is for n servers. Those that were restarted grant nothing for maxTTL.
func harness(n int, maxTTL time.Duration) wiretest.Harness {
	opts := &Options{NodeTimeout: 3 * time.Second} // servers of a busy machine may be silent for more than a second
	opts.MaxTTL, opts.TTL, opts.ConnectTimeout = maxTTL, suiteTTL, 20*time.Second
	return wiretest.Harness{
		Except: except,
		Start: func(t testing.TB) wiretest.Service {
			_, s := serviceOf(t, n, opts)
			return s
		},
		TTL:      suiteTTL,
		Recovery: maxTTL,
		Parallel: true,
		Golden:   "testdata/wire.txt",
	}
}

// serviceOf is n servers, for participants whose links can be cut.
func serviceOf(t testing.TB, n int, opts *Options) (fleet, wiretest.Service) {
	f := startFleet(t, n, opts)
	f.name(t, opts)
	return f, wiretest.Service{
		Open: func(t testing.TB) driver.Store {
			return openThrough(t, f, opts)
		},
		Crash: func(_ testing.TB, s driver.Store) {
			for _, l := range s.(*through).links {
				l.Close()
			}
		},
		Restart: func(testing.TB) {
			for _, s := range f {
				s.restart()
			}
		},
		Cut:  func(_ testing.TB, s driver.Store) { s.(*through).set(drivertest.BlackHole) },
		Heal: func(_ testing.TB, s driver.Store) { s.(*through).set(drivertest.Healthy) },
		Left: func(_ testing.TB, prefix string) (keys []string) {
			for _, s := range f {
				keys = append(keys, s.left(prefix)...)
			}
			return keys
		},
	}
}

// testWire starts n servers for all checks but those that restart theirs.
func testWire(t *testing.T, n int) {
	t.Parallel()
	h := harness(n, time.Minute)
	restarts := harness(n, suiteTTL).Start
	all := h.Start(t)
	h.Start = func(t testing.TB) wiretest.Service {
		if strings.Contains(t.Name(), "restart") {
			return restarts(t)
		}
		return all
	}
	h.Recovery = suiteTTL
	wiretest.Run(t, h)
}

func TestWire3(t *testing.T) { testWire(t, 3) }
func TestWire5(t *testing.T) { testWire(t, 5) }

// TestClients: clients, package participant and this wire fit together.
func TestClients(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, patient())
	wiretest.RunClients(t, wiretest.Clients{Open: func(t testing.TB) *pawl.Client {
		c, err := Open(context.Background(), f.url(), patient())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}})
}
