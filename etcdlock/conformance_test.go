// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

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
	*half
	link *drivertest.Link
}

// openThrough opens a participant. It is closed when the test ends, also if it was "crashed".
func openThrough(t testing.TB, link *drivertest.Link, opts *Options) *linked {
	t.Helper()
	d, err := NewDriver(context.Background(), "etcd://"+link.Addr(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return &linked{halfOf(d), link}
}

// etcd counts in seconds and looks for expired leases every half a second.
const (
	suiteTTL   = 2 * time.Second
	suiteSlack = 4 * time.Second
)

func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, harness(startServer(t)))
}

// harness is for tests that use the shared server, if there is one, unless they restart
// it, and say so in their names.
func harness(shared *member) drivertest.Harness {
	opts := new(Options)
	opts.TTL = suiteTTL
	return drivertest.Harness{
		Start: func(t testing.TB) drivertest.Store {
			m := shared
			if m == nil || strings.Contains(t.Name(), "restart") {
				m = startServer(t)
			}
			return drivertest.Store{
				Open: func(t testing.TB) driver.Driver { return openThrough(t, drivertest.NewLink(t, m.Addr), opts) },
				Late: func(t testing.TB, late time.Duration) driver.Driver {
					return openThrough(t, drivertest.SlowTo(t, m.Addr, late), opts)
				},
				Crash:   func(_ testing.TB, d driver.Driver) { d.(*linked).link.Close() },
				Restart: func(testing.TB) { m.restart() },
				Cut:     func(_ testing.TB, d driver.Driver) { d.(*linked).link.Set(drivertest.BlackHole) },
				Heal:    func(_ testing.TB, d driver.Driver) { d.(*linked).link.Set(drivertest.Healthy) },
				Left: func(t testing.TB, prefix string) []string {
					d := openThrough(t, drivertest.NewLink(t, m.Addr), opts)
					defer d.Close()
					return keys(t, d.half, d.prefix+lockPart+escape(prefix))
				},
			}
		},
		TTL:       suiteTTL,
		Slack:     suiteSlack,
		Pause:     200 * time.Millisecond,
		Histories: 8,
		Parallel:  true,
	}
}
