// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// TestVotesEndLull: a waiter that pauses takes the lease that it is handed meanwhile.
func TestVotesEndLull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &search{d: start(t, masters(3), nil), req: renewing(), wake: make(chan struct{}, 1)}
		s.turn = &turn{quorum: 2, wake: s.wake, settled: make(chan struct{}, 1)}
		seq := s.turn.asks()
		signal(s.wake) // a message of before
		time.AfterFunc(time.Second, func() { s.turn.told(nodewire.Message{Token: 7, Seq: seq, Run: "one"}) })
		time.AfterFunc(time.Second+time.Millisecond, func() { s.turn.told(nodewire.Message{Token: 7, Seq: seq, Run: "two"}) })
		began := driver.Now()
		if propose, err := s.lull(t.Context(), time.Minute); !propose || err != nil {
			t.Errorf("lull = %t, %v; want the votes", propose, err)
		}
		elapsed(t, began, time.Second+time.Millisecond)
		s.turn = &turn{quorum: 2, wake: s.wake, settled: make(chan struct{}, 1)}
		began = driver.Now()
		if propose, err := s.lull(t.Context(), time.Minute); propose || err != nil {
			t.Errorf("lull = %t, %v; want no votes", propose, err)
		}
		elapsed(t, began, time.Minute)
	})
}

// TestFreshVotes: that a waiter was told before its last request does not end its wait for votes.
func TestFreshVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &search{d: start(t, masters(3), nil), req: renewing(), wake: make(chan struct{}, 1)}
		s.turn = &turn{quorum: 2, wake: s.wake, settled: make(chan struct{}, 1)}
		s.turn.told(nodewire.Message{Seq: s.turn.asks()}) // that the name may be free
		seq := s.turn.asks()
		s.turn.told(nodewire.Message{Token: 7, Seq: seq, Run: "one"})
		time.AfterFunc(time.Millisecond, func() { s.turn.told(nodewire.Message{Token: 7, Seq: seq, Run: "two"}) })
		if _, err := s.lull(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, _, ok := s.turn.won(time.Minute); !ok {
			t.Error("it goes on before the votes have come")
		}
	})
}

// TestPauseOfFarNodes: however far away the nodes seem to be, a waiter that has votes proposes while they last.
func TestPauseOfFarNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, masters(3), nil)
		for _, m := range d.members {
			m.trip.Store(int64(10 * time.Second))
		}
		s := &search{d: d, req: renewing(), wake: make(chan struct{}, 1)}
		s.turn = &turn{quorum: 2, wake: s.wake, settled: make(chan struct{}, 1)}
		s.turn.told(nodewire.Message{Token: 7, Seq: s.turn.asks(), Run: "one"})
		began := driver.Now()
		if propose, err := s.lull(t.Context(), time.Minute); !propose || err != nil {
			t.Errorf("lull = %t, %v; want that it proposes", propose, err)
		}
		if took := driver.Now().Sub(began); took > claimFor/2 {
			t.Errorf("it paused for %v, and its votes last for %v", took, claimFor)
		}
	})
}
