// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// wires are links on which faults of the network happen.
type wires []*servers.Link

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
	both := func(a *Act, f servers.Flow, ds ...servers.Direction) error {
		hit := some(a)
		for _, l := range hit {
			for _, d := range ds {
				l.Flow(d, f)
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
		{Kind: "black hole to the server", Do: func(a *Act) error { return both(a, servers.Flow{Stall: true}, servers.Up) }},
		{Kind: "black hole from the server", Do: func(a *Act) error { return both(a, servers.Flow{Stall: true}, servers.Down) }},
		{Kind: "black hole", Do: func(a *Act) error { return both(a, servers.Flow{Stall: true}, servers.Up, servers.Down) }},
		{Kind: "answers lost", Do: func(a *Act) error { return both(a, servers.Flow{Lose: true}, servers.Down) }},
		{Kind: "requests lost", Do: func(a *Act) error { return both(a, servers.Flow{Lose: true}, servers.Up) }},
		{Kind: "delay", Do: func(a *Act) error {
			return both(a, servers.Flow{Delay: time.Duration(1+a.Rand.IntN(300)) * time.Millisecond}, servers.Up, servers.Down)
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
