// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestTokenOfTwoRounds: a token counts only where it was stored. If others have
// stored greater ones there is a second round, with one that is greater still.
func TestTokenOfTwoRounds(t *testing.T) {
	for high := range 4 {
		t.Run(fmt.Sprint(high, " of 3 know greater tokens"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := masters(3)
				floor := uint64(time.Now().UnixMicro()) + 1e6
				for _, m := range all {
					m.set(only("propose", fault{after: time.Millisecond})) // all answers come in one instant
				}
				for i, m := range all[:high] {
					m.Name(name).Store(floor+uint64(i), "somebody", false)
				}
				d := start(t, all, nil)
				g := try(t, d)
				stored := 0
				for _, m := range all {
					if l := m.lockOf(name); l.Lease == g.lease && l.Token == g.token && m.stateOf(name).Floor == g.token {
						stored++
					}
				}
				if stored < 2 {
					t.Errorf("%d nodes have stored the token; want a quorum", stored)
				}
				if high > 0 && g.token <= floor+uint64(high)-1 || d.rounds.Load() != int64(min(1+high, 2)) {
					t.Errorf("token %d after %d in %d rounds", g.token, floor, d.rounds.Load())
				}
			})
		})
	}
}

// TestTokenOfAPausedClient: a client that stands still between reading its clock and asking
// has no lease with that token, which may be older than what a node has forgotten since.
func TestTokenOfAPausedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paused := false
		d := start(t, masters(3), &Options{WallClock: func() time.Time {
			now := time.Now()
			if !paused {
				paused = true
				time.Sleep(time.Hour)
			}
			return now
		}})
		asked := time.Now()
		g := await(t, d, request())
		if !paused || g.Token() < uint64(asked.Add(time.Hour).UnixMicro()) {
			t.Errorf("token %s old", time.Since(time.UnixMicro(int64(g.Token()))))
		}
	})
}

// TestSwarm: participants whose clocks disagree ask at the same time, over a network
// that delays, loses and reorders, with leases that expire under way. Tokens are
// unique, and grow with time; trusted times do not overlap.
func TestSwarm(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 20
	}
	grants := 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { grants += swarm(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d grants", grants)
}

// span is a lease: asked for, trusted from, and to.
type span struct {
	token     uint64
	asked, to driver.Instant
	known     driver.Instant
}

func swarm(t *testing.T, seed uint64) int {
	r := rand.New(rand.NewPCG(seed, 1))
	all := masters(3 + 2*int(seed%2))
	noise := func(i int, m *master) {
		r := rand.New(rand.NewPCG(seed, uint64(i)+100))
		m.set(func(string) fault {
			return fault{
				before: time.Duration(r.IntN(2000)) * time.Microsecond,
				after:  time.Duration(r.IntN(2000)) * time.Microsecond,
				lost:   r.IntN(30) == 0, silent: r.IntN(30) == 0,
			}
		})
	}
	var mu sync.Mutex
	var spans []span
	var participants []func()
	for range 4 {
		skew := time.Duration(r.IntN(100)-50) * time.Millisecond
		rest := rand.New(rand.NewPCG(seed, r.Uint64()))
		opts := &Options{NodeTimeout: 5 * time.Millisecond, Rand: rand.NewPCG(seed, r.Uint64()),
			WallClock: func() time.Time { return time.Now().Add(skew) }}
		d := start(t, all, opts)
		participants = append(participants, func() {
			for range 6 {
				req := request()
				req.TTL = 200 * time.Millisecond
				asked := driver.Now()
				g, err := d.TryAcquire(t.Context(), req)
				if err == nil {
					s := span{token: g.Token(), asked: asked, known: driver.Now(), to: trust(g.Since(), req.TTL)}
					if rest.IntN(2) == 0 { // else it expires
						time.Sleep(time.Duration(rest.IntN(50)) * time.Millisecond)
						s.to = min(s.to, driver.Now())
						g.Release(t.Context())
					}
					mu.Lock()
					spans = append(spans, s)
					mu.Unlock()
				}
				time.Sleep(time.Duration(rest.IntN(100)) * time.Millisecond)
			}
		})
	}
	for i, m := range all {
		noise(i, m)
	}
	var wait sync.WaitGroup
	for _, f := range participants {
		wait.Go(f)
	}
	wait.Wait()
	slices.SortFunc(spans, func(a, b span) int { return int(a.known - b.known) })
	for i := 1; i < len(spans); i++ {
		a, b := spans[i-1], spans[i]
		if b.token <= a.token {
			t.Errorf("token %d after token %d", b.token, a.token)
		}
		if b.known < a.to {
			t.Errorf("lease %d begins %v before lease %d has ended", b.token, a.to.Sub(b.known), a.token)
		}
	}
	return len(spans)
}
