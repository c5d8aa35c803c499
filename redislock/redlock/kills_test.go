// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestTokensUnderKills: servers without persistence are killed and restarted while
// five participants take the same names in turn. Tokens grow, as long as restarts
// are noticed and wall clocks agree within MaxTTL; see docs/guarantees.md.
func TestTokensUnderKills(t *testing.T) {
	t.Parallel()
	grants := int64(10_000)
	if raceEnabled || testing.Short() {
		grants = 2_000
	}
	k := &kills{names: make([]sync.Mutex, 5), last: make([]uint64, 5)}
	opts := &Options{NodeTimeout: time.Second}
	opts.TTL, opts.MaxTTL = time.Second, time.Second
	k.run(t, startFleet(t, 5, opts), opts, grants, true)
	t.Logf("%d grants, %d restarts", k.grants.Load(), k.restarts)
	if k.wrong > 0 {
		t.Errorf("%d tokens were not greater than the one before; the first: %s", k.wrong, k.first)
	}
	if k.restarts < 3 {
		t.Errorf("%d restarts; want some", k.restarts)
	}
}

// TestTokensWithoutAssumptions is the control of the test above: all servers forget
// everything, unnoticed, and the clocks stand still.
func TestTokensWithoutAssumptions(t *testing.T) {
	t.Parallel()
	k := &kills{names: make([]sync.Mutex, 1), last: make([]uint64, 1)}
	clock := time.Now()
	opts := &Options{NodeTimeout: time.Second, WallClock: func() time.Time { return clock }}
	opts.TTL, opts.MaxTTL, opts.AllowUnguarded = time.Second, time.Second, true
	f := startFleet(t, 3, opts, "--rename-command", "INFO", "")
	k.run(t, f, opts, 50, false)
	for _, s := range f {
		s.restart()
	}
	k.run(t, f, opts, 100, false)
	if k.wrong == 0 {
		t.Error("tokens grow all the same: the test above cannot fail")
	}
}

// kills is a run with participants that take names in turn.
type kills struct {
	names    []sync.Mutex // held by who checks that it is the only holder
	last     []uint64     // by name; guarded by names
	grants   atomic.Int64
	restarts int

	mu    sync.Mutex
	wrong int
	first string
}

func (k *kills) run(t *testing.T, f fleet, opts *Options, grants int64, kill bool) {
	stop := make(chan struct{})
	var killer, all sync.WaitGroup
	if kill {
		killer.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(rand.N(2 * time.Second)):
					f[rand.IntN(len(f))].restart()
					k.restarts++
				}
			}
		})
	}
	for range 5 {
		d := dialFleet(t, f, opts)
		all.Go(func() {
			for k.grants.Load() < grants && !t.Failed() {
				k.take(t, d, opts.TTL)
			}
		})
	}
	all.Wait()
	close(stop)
	killer.Wait()
}

// take takes a name once and looks at the token.
func (k *kills) take(t *testing.T, d *Driver, ttl time.Duration) {
	i := rand.IntN(len(k.names))
	req := request()
	req.Name, req.TTL = fmt.Sprint("name", i), ttl
	g, err := d.Acquire(t.Context(), req)
	if err != nil {
		return // too many servers are down
	}
	if k.names[i].TryLock() {
		if driver.Now() < trust(g.Since(), ttl) {
			k.check(g.Token(), i)
		}
		k.names[i].Unlock()
	} else if driver.Now() < trust(g.Since(), ttl) {
		k.note(fmt.Sprintf("two have %s at once", req.Name))
	}
	g.Release(t.Context())
}

func (k *kills) check(token uint64, i int) {
	if token <= k.last[i] {
		k.note(fmt.Sprintf("token %d after %d", token, k.last[i]))
	}
	k.last[i] = max(k.last[i], token)
	k.grants.Add(1)
}

func (k *kills) note(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wrong++; k.wrong == 1 {
		k.first = what
	}
}
