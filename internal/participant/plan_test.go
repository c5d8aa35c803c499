// SPDX-License-Identifier: Apache-2.0

package participant_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// plan is all that a history depends on.
type plan struct {
	Seed    uint64
	TTL     time.Duration
	Polls   bool          // the store has no queue
	Gentle  bool          // whatever happens, renewals are answered within a third of the TTL
	Deaf    bool          // no event ever comes
	Far     time.Duration // that each message takes at least
	Scripts []script
	Faults  []fault
}

// script is what one goroutine does.
type script struct {
	Client int
	Ops    []op
}

// op is one lease: think, ask, hold.
type op struct {
	Think, Patience, Hold time.Duration // Patience 0: TryAcquire
	Name                  int
	Shared                bool
	Slots                 int
	NoRenew               bool
	MinHold, KeepIdle     time.Duration
	Extend                time.Duration
}

// fault is something that goes wrong for a while.
type fault struct {
	At, For time.Duration
	What    string
	Client  int // -1: all
	Much    float64
}

func (f fault) String() string {
	return fmt.Sprintf("%v for %v: %s %.2f of client %d", f.At, f.For, f.What, f.Much, f.Client)
}

const length = 12 * time.Second // of the faults

var kinds = []string{"loss", "loss", "slow", "twice", "down", "silent", "pause", "pause", "deaf", "mute", "restart", "empty", "break", "break-claim", "back"}
var gentle = []string{"slow", "twice", "deaf", "mute", "restart", "loss-events", "break-claim"}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}

// draw returns the plan of a seed.
func draw(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 7))
	p := &plan{Seed: seed, TTL: between(r, 1500*time.Millisecond, 4*time.Second), Polls: r.IntN(8) == 0, Gentle: r.IntN(4) == 0}
	if r.IntN(4) == 0 {
		p.TTL *= 3
	}
	p.Deaf = r.IntN(12) == 0
	if r.IntN(6) == 0 {
		p.Far = between(r, 50*time.Millisecond, p.TTL/8)
	}
	clients, names := 1+r.IntN(3), 1+r.IntN(2)
	for c := range clients {
		several := 1 + r.IntN(2)
		if r.IntN(5) == 0 {
			several += 2
		}
		for range several {
			s := script{Client: c}
			for range 1 + r.IntN(3) {
				s.Ops = append(s.Ops, drawOp(r, p.TTL, names))
			}
			p.Scripts = append(p.Scripts, s)
		}
	}
	all := kinds
	if p.Gentle {
		all = gentle
	}
	for range r.IntN(5) {
		f := fault{At: between(r, 0, length), For: between(r, 20*time.Millisecond, 4*time.Second), What: all[r.IntN(len(all))], Client: r.IntN(clients+1) - 1, Much: r.Float64()}
		if f.What == "silent" && r.IntN(3) == 0 {
			f.For = between(r, 4*time.Second, 40*time.Second)
		}
		if f.What == "pause" && f.Client < 0 {
			f.Client = 0
		}
		p.Faults = append(p.Faults, f)
	}
	slices.SortFunc(p.Faults, func(a, b fault) int { return int(a.At - b.At) })
	return p
}

func drawOp(r *rand.Rand, ttl time.Duration, names int) op {
	o := op{Think: between(r, 0, time.Second), Patience: between(r, 500*time.Millisecond, 20*time.Second) * time.Duration(1+r.IntN(2)*2), Hold: between(r, 0, time.Second), Name: r.IntN(names)}
	if r.IntN(4) == 0 {
		o.Hold = between(r, 0, 3*ttl)
	}
	switch r.IntN(12) {
	case 0, 10, 11:
		o.Patience = 0
	case 1, 2:
		o.Shared = true
	case 3:
		o.Slots = 2
	case 4:
		o.NoRenew = true
	case 5:
		o.MinHold = between(r, 0, ttl)
	case 6:
		o.KeepIdle = between(r, 0, 10*time.Second)
	case 7:
		o.Extend = ttl * 9 / 10
	}
	return o
}

// without returns the plans that have one part less.
func (p *plan) without() (smaller []*plan) {
	for i := range p.Faults {
		q := *p
		q.Faults = slices.Delete(slices.Clone(p.Faults), i, i+1)
		smaller = append(smaller, &q)
	}
	for i, s := range p.Scripts {
		if len(s.Ops) == 1 {
			q := *p
			q.Scripts = slices.Delete(slices.Clone(p.Scripts), i, i+1)
			smaller = append(smaller, &q)
			continue
		}
		for j := range s.Ops {
			q := *p
			q.Scripts = slices.Clone(p.Scripts)
			q.Scripts[i].Ops = slices.Delete(slices.Clone(s.Ops), j, j+1)
			smaller = append(smaller, &q)
		}
	}
	return smaller
}
