// SPDX-License-Identifier: Apache-2.0

// Package scale predicts what servers of locks carry: from what an operation costs the
// processors of both sides, in memory and on the network, how fast it is, and how many
// servers it takes. It is arithmetic; package bench and "pawl bench" measure.
package scale

import (
	"math"
	"slices"
)

// Measured is what callers of one client, who ask again as soon as they have an answer, got
// from one server: acquire and release of free locks, in pairs.
type Measured struct {
	Callers        int
	Rate           float64 // pairs a second
	Client, Server float64 // processor time of a pair, in seconds
	Batch          float64 // locks in a call; 1 if each has one of its own
}

// Path is what a pair passes through: the processor of the client, that of the server, and a
// rest in which neither works.
type Path struct {
	// By callers. Processors that sleep in between take longer for the same, and what is asked
	// for at the same time may share a call: so the times have to be measured at some loads.
	measured []Measured
	Rest     float64 // seconds of a call
	Most     float64 // locks in a call
}

// Fit is the path that explains what was measured: one caller alone, and one or more others.
func Fit(most float64, list ...Measured) Path {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Measured) int { return a.Callers - b.Callers })
	one := list[0]
	return Path{measured: list, Rest: max(0, 1/one.Rate-one.Client-one.Server), Most: most}
}

// At is what a pair takes if so many callers ask, without what they wait for each other.
// Times are linear in 1/callers between what was measured: so much of them is shared. The
// locks in a call are a power of callers.
func (p Path) At(callers float64) Measured {
	a, b := p.around(callers)
	x := 1 / callers
	between := func(u, v float64) float64 { return u }
	power := between
	if ax, bx := 1/float64(a.Callers), 1/float64(b.Callers); ax != bx {
		part := (x - ax) / (bx - ax)
		between = func(u, v float64) float64 { return max(0, u+(v-u)*part) }
		part2 := math.Log(x/ax) / math.Log(bx/ax)
		power = func(u, v float64) float64 { return u * math.Pow(v/u, part2) }
	}
	return Measured{
		Callers: int(callers),
		Client:  between(a.Client, b.Client), Server: between(a.Server, b.Server),
		Batch: max(1, min(power(a.Batch, b.Batch), p.Most)),
	}
}

// around returns the two loads that were measured next to callers.
func (p Path) around(callers float64) (a, b Measured) {
	last := len(p.measured) - 1
	i := 1
	for i < last && float64(p.measured[i].Callers) < callers {
		i++
	}
	return p.measured[max(0, min(i, last)-1)], p.measured[min(i, last)]
}

// Load is what comes of a number of callers.
type Load struct {
	Rate           float64 // pairs a second
	Time           float64 // seconds for a pair
	Batch          float64 // locks in a call
	Client, Server float64 // how busy the processors are, of 1
}

// Closed is the load of callers of one client that ask again as soon as they have an
// answer. Calls are the customers of a closed network with two stations and a delay: exact
// mean value analysis.
func (p Path) Closed(callers int) Load {
	m := p.At(float64(callers))
	k := m.Batch
	client, server := m.Client*k, m.Server*k
	n := float64(callers) / k
	lo, hi := rate(int(n), client, server, p.Rest), rate(int(math.Ceil(n)), client, server, p.Rest)
	r := (lo + (hi-lo)*(n-math.Floor(n))) * k
	return Load{Rate: r, Time: float64(callers) / r, Batch: k, Client: r * m.Client, Server: r * m.Server}
}

// rate is the throughput of n customers.
func rate(n int, a, b, rest float64) float64 {
	var qa, qb, x float64 // how many are at the two stations, on average
	for i := 1; i <= n; i++ {
		ta, tb := a*(1+qa), b*(1+qb)
		x = float64(i) / (ta + tb + rest)
		qa, qb = x*ta, x*tb
	}
	return x
}

// Open is how long an operation takes at a station that is busy for share of the time, and
// to which independent callers come: time is that for one alone.
func Open(time, share float64) float64 {
	if share >= 1 {
		return math.Inf(1)
	}
	return time / (1 - share)
}
