// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// linked is a participant with a link that can be cut.
type linked struct {
	*party
	link *drivertest.Link
}

// openThrough opens a participant. It is closed when the test ends, also if it was "crashed".
func openThrough(t testing.TB, link *drivertest.Link, opts *Options) *linked {
	t.Helper()
	d, err := NewDriver(context.Background(), "redis://"+link.Addr(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return &linked{party: asParty(d), link: link}
}

// left lists the keys of names that begin with prefix.
func (s *redis) left(prefix string) (keys []string) {
	for key := range strings.Lines(s.do("keys", lockKey("*", prefix+"*")+"*")) {
		if key = strings.TrimSpace(key); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

const (
	suiteTTL   = time.Second
	suiteSlack = time.Second
	suitePause = 30 * time.Millisecond
)

// driverTTL is that of Options, from which follows how long a request may take. The suite asks for
// leases with TTLs of its own.
const driverTTL = 10 * time.Second

var suiteMaxTTL = drivertest.LongTTL(suiteTTL, suiteSlack) // the longest that the suite asks for

// TestConformance has one server for all tests but those that restart theirs.
func TestConformance(t *testing.T) {
	t.Parallel()
	h := harness(suiteMaxTTL)
	h.Start = drivertest.Shared(t, h.Start, harness(drivertest.RestartTTL(suiteTTL, suiteSlack)).Start)
	drivertest.Run(t, h)
}

// harness is for leases of at most maxTTL, for which a server that was restarted
// grants nothing.
func harness(maxTTL time.Duration) drivertest.Harness {
	opts := &Options{MaxTTL: maxTTL}
	opts.TTL = min(driverTTL, maxTTL)
	return drivertest.Harness{
		Start: func(t testing.TB) drivertest.Store {
			s := startServer(t)
			if err := Bless(context.Background(), s.url(), opts); err != nil {
				t.Fatal(err)
			}
			return drivertest.Store{
				Open: func(t testing.TB) driver.Driver { return openThrough(t, drivertest.NewLink(t, s.Addr), opts) },
				Late: func(t testing.TB, late time.Duration) driver.Driver {
					return openThrough(t, drivertest.SlowTo(t, s.Addr, late), opts)
				},
				Crash:   func(_ testing.TB, d driver.Driver) { d.(*linked).link.Close() },
				Restart: func(testing.TB) { s.restart() },
				Cut:     func(_ testing.TB, d driver.Driver) { d.(*linked).link.Set(drivertest.BlackHole) },
				Heal:    func(_ testing.TB, d driver.Driver) { d.(*linked).link.Set(drivertest.Healthy) },
				Left:    func(_ testing.TB, prefix string) []string { return s.left(prefix) },
			}
		},
		TTL:       suiteTTL,
		Slack:     suiteSlack,
		Pause:     suitePause,
		Recovery:  maxTTL,
		Histories: 8,
		Parallel:  true,
	}
}
