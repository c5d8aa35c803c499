// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// participant is a driver with links that can be cut.
type participant struct {
	*Driver
	links []*drivertest.Link
}

// openThrough opens a participant. It is closed when the test ends, also if it was "crashed".
func openThrough(t testing.TB, f fleet, opts *Options) *participant {
	t.Helper()
	return openSlow(t, f, opts, 0)
}

// openSlow is openThrough with links over which a round trip takes trip.
func openSlow(t testing.TB, f fleet, opts *Options, trip time.Duration) *participant {
	t.Helper()
	p := new(participant)
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
	if p.Driver, err = NewDriver(context.Background(), "redlock://"+strings.Join(addrs, ","), &own); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func (p *participant) set(f drivertest.Fault) {
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

const (
	suiteTTL   = 2 * time.Second
	suiteSlack = 1500 * time.Millisecond
)

var suiteMaxTTL = drivertest.LongTTL(suiteTTL, suiteSlack) // the longest that the suite asks for

// harness is for n servers and leases of at most maxTTL, for which servers that were
// restarted grant nothing.
func harness(n int, maxTTL time.Duration) drivertest.Harness {
	opts := &Options{NodeTimeout: time.Second}
	opts.MaxTTL, opts.TTL = maxTTL, suiteTTL
	return suite(n, maxTTL, func(t testing.TB) drivertest.Store {
		_, store := storeOf(t, n, opts)
		return store
	})
}

// suite is a harness with the times of real servers.
func suite(n int, maxTTL time.Duration, start func(testing.TB) drivertest.Store) drivertest.Harness {
	return drivertest.Harness{
		Start:     start,
		TTL:       suiteTTL,
		Slack:     suiteSlack,
		Pause:     30 * time.Millisecond,
		Recovery:  maxTTL,
		Histories: 8,
		Parallel:  true,
		Golden:    fmt.Sprintf("testdata/conformance-%d.txt", n),
	}
}

// storeOf is n servers, for participants whose links can be cut.
func storeOf(t testing.TB, n int, opts *Options) (fleet, drivertest.Store) {
	f := startFleet(t, n, opts)
	f.name(t, opts)
	return f, drivertest.Store{
		Open: func(t testing.TB) driver.Driver { return openThrough(t, f, opts) },
		Late: func(t testing.TB, late time.Duration) driver.Driver { return openSlow(t, f, opts, late) },
		Crash: func(_ testing.TB, d driver.Driver) {
			for _, l := range d.(*participant).links {
				l.Close()
			}
		},
		Restart: func(testing.TB) {
			for _, s := range f {
				s.restart()
			}
		},
		Cut:  func(_ testing.TB, d driver.Driver) { d.(*participant).set(drivertest.BlackHole) },
		Heal: func(_ testing.TB, d driver.Driver) { d.(*participant).set(drivertest.Healthy) },
		Left: func(_ testing.TB, prefix string) (keys []string) {
			for _, s := range f {
				keys = append(keys, s.left(prefix)...)
			}
			return keys
		},
	}
}

// testConformance starts n servers for all tests but those that restart theirs.
func testConformance(t *testing.T, n int) {
	t.Parallel()
	h := harness(n, suiteMaxTTL)
	h.Start = drivertest.Shared(t, h.Start, harness(n, drivertest.RestartTTL(suiteTTL, suiteSlack)).Start)
	drivertest.Run(t, h)
}

func TestConformance3(t *testing.T) { testConformance(t, 3) }
func TestConformance5(t *testing.T) { testConformance(t, 5) }
