// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"time"

	"github.com/pawl-go/pawl/lab/chaos/link"
)

// wires are links on which faults of the network happen.
type wires []*link.Link

func (w wires) heal() {
	for _, l := range w {
		l.Heal()
	}
}

func (w wires) close() {
	for _, l := range w {
		l.Close()
	}
}

// faults returns faults that happen to one of the links, or to all of them.
func (w wires) faults() []Fault {
	some := func(a *Act) wires {
		if a.Rand.IntN(4) == 0 {
			return w
		}
		i := a.Rand.IntN(len(w))
		return w[i : i+1]
	}
	both := func(a *Act, f link.Fault, ds ...link.Direction) error {
		hit := some(a)
		for _, l := range hit {
			for _, d := range ds {
				l.Set(d, f)
			}
		}
		a.Last(a.TTL/20, 2*a.TTL)
		for _, l := range hit {
			if a.Rand.IntN(2) == 0 {
				l.Reset()
			}
			l.Heal()
		}
		return nil
	}
	return []Fault{
		{Kind: "black hole to the server", Do: func(a *Act) error { return both(a, link.Fault{Stall: true}, link.Up) }},
		{Kind: "black hole from the server", Do: func(a *Act) error { return both(a, link.Fault{Stall: true}, link.Down) }},
		{Kind: "black hole", Do: func(a *Act) error { return both(a, link.Fault{Stall: true}, link.Up, link.Down) }},
		{Kind: "answers lost", Do: func(a *Act) error { return both(a, link.Fault{Lose: true}, link.Down) }},
		{Kind: "requests lost", Do: func(a *Act) error { return both(a, link.Fault{Lose: true}, link.Up) }},
		{Kind: "delay", Do: func(a *Act) error {
			return both(a, link.Fault{Delay: time.Duration(1+a.Rand.IntN(300)) * time.Millisecond}, link.Up, link.Down)
		}},
		{Kind: "resets", Do: func(a *Act) error {
			hit := some(a)
			for range 1 + a.Rand.IntN(5) {
				for _, l := range hit {
					l.Reset()
				}
				a.Last(0, a.TTL/10)
			}
			return nil
		}},
		{Kind: "refused", Do: func(a *Act) error {
			hit := some(a)
			for _, l := range hit {
				l.Refuse(true)
				l.Reset()
			}
			a.Last(a.TTL/20, a.TTL)
			hit.heal()
			return nil
		}},
	}
}
