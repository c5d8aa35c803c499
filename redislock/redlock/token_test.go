// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
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
