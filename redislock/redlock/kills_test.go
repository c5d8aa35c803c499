// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestTokensUnderKills: servers without persistence are killed and restarted while
// five participants take the same names in turn. Tokens grow, as long as restarts
// are noticed and wall clocks agree within MaxTTL; see docs/guarantees/redlock.md.
func TestTokensUnderKills(t *testing.T) {
	t.Parallel()
	grants := int64(10_000)
	if raceEnabled || testing.Short() {
		grants = 2_000
	}
	k := &kills{leases: make([][]granted, 5)}
	opts := &Options{NodeTimeout: time.Second}
	opts.TTL, opts.MaxTTL = time.Second, time.Second
	k.run(t, startFleet(t, 5, opts), opts, grants, true)
	t.Logf("%d grants, %d restarts", k.grants.Load(), k.restarts)
	if n, first := k.wrong(); n > 0 {
		t.Errorf("%d tokens are wrong; the first: %s", n, first)
	}
	if k.restarts < 3 || k.grants.Load() < 100 {
		t.Errorf("%d restarts and %d grants; want some", k.restarts, k.grants.Load())
	}
}

// TestTokensWithoutAssumptions is the control of the test above: all servers forget
// everything, unnoticed, and the clocks stand still.
func TestTokensWithoutAssumptions(t *testing.T) {
	t.Parallel()
	k := &kills{leases: make([][]granted, 1)}
	clock := time.Now()
	opts := &Options{NodeTimeout: time.Second, WallClock: func() time.Time { return clock }}
	opts.TTL, opts.MaxTTL, opts.AllowUnguarded = time.Second, time.Second, true
	f := startFleet(t, 3, opts, "--rename-command", "INFO", "")
	k.run(t, f, opts, 50, false)
	for _, s := range f {
		s.restart()
	}
	k.run(t, f, opts, 100, false)
	if n, _ := k.wrong(); n == 0 {
		t.Error("tokens grow all the same: the test above cannot fail")
	}
}

// kills is a run with participants that take names in turn.
type kills struct {
	grants   atomic.Int64
	restarts int

	mu     sync.Mutex
	leases [][]granted // by name
}

// granted is a lease that was asked for after one instant and known at another.
type granted struct {
	token        uint64
	asked, known driver.Instant
}

// wrong counts the tokens that are not greater than all that were known before they
// were asked for, and describes the first.
func (k *kills) wrong() (n int, first string) {
	for name, byAsked := range k.leases {
		slices.SortFunc(byAsked, func(a, b granted) int { return cmp.Compare(a.asked, b.asked) })
		byKnown := slices.SortedFunc(slices.Values(byAsked), func(a, b granted) int { return cmp.Compare(a.known, b.known) })
		largest, next, seen := uint64(0), 0, make(map[uint64]bool)
		for _, g := range byAsked {
			for ; byKnown[next].known < g.asked; next++ {
				largest = max(largest, byKnown[next].token)
			}
			if g.token <= largest || seen[g.token] {
				if n++; n == 1 {
					first = fmt.Sprintf("name %d: %d, after %d", name, g.token, largest)
				}
			}
			seen[g.token] = true
		}
	}
	return n, first
}

// run has five participants take names until there are so many grants. With kill, servers are killed meanwhile, and
// after that the participants have to be as fast again as before.
func (k *kills) run(t *testing.T, f fleet, opts *Options, grants int64, kill bool) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 5 {
		d := dialFleet(t, f, opts)
		all.Go(func() {
			for !t.Failed() {
				select {
				case <-stop:
					return
				default:
					k.take(t, d, opts.TTL)
				}
			}
		})
	}
	done := func() bool { return k.grants.Load() >= grants || t.Failed() }
	if kill {
		k.kill(t, f, done)
	} else {
		eventually(patience, done)
	}
	close(stop)
	all.Wait()
}

// kill kills servers until done, or for a minute: they grant little on a slow machine if they are killed twice a second.
func (k *kills) kill(t *testing.T, f fleet, done func() bool) {
	before, after := k.pace(), 0.0
	for end := time.Now().Add(time.Minute); !done() && time.Now().Before(end); k.restarts++ {
		time.Sleep(rand.N(time.Second))
		f[rand.IntN(len(f))].restart()
	}
	if !eventually(patience, func() bool { after = k.pace(); return after > before/4 || t.Failed() }) {
		t.Errorf("%.0f grants a second after the last kill, and %.0f before the first", after, before)
	}
}

// pace measures how many grants there are in a second.
func (k *kills) pace() float64 {
	began, first := time.Now(), k.grants.Load()
	eventually(10*time.Second, func() bool { return k.grants.Load() >= first+300 })
	return float64(k.grants.Load()-first) / time.Since(began).Seconds()
}

// take takes a name once and notes the token.
func (k *kills) take(t *testing.T, d *store, ttl time.Duration) {
	i := rand.IntN(len(k.leases))
	req := request()
	req.Name, req.TTL = fmt.Sprint("name", i), ttl
	g, err := d.Acquire(t.Context(), req)
	if err != nil {
		return // too many servers are down
	}
	k.mu.Lock()
	k.leases[i] = append(k.leases[i], granted{g.Token(), g.Since(), driver.Now()})
	k.mu.Unlock()
	k.grants.Add(1)
	g.Release(t.Context())
}
