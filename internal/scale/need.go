// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"cmp"
	"math"
	"slices"
)

// Wish is what a deployment does.
type Wish struct {
	Clients  float64 // connected
	Held     float64 // leases, renewed each third of TTL seconds
	TTL      float64
	Waiters  float64
	Pairs    float64 // acquire and release of free locks, a second
	HandOffs float64 // a second
	// Everywhere says that each client uses names of all servers, as in a Redis Cluster. Else
	// the clients are in groups, each with servers of its own.
	Everywhere bool
}

// Renewals is how many there are in a second.
func (w Wish) Renewals() float64 {
	if w.TTL <= 0 {
		return 0
	}
	return 3 * w.Held / w.TTL
}

// Store is what one server pays: times in seconds of its processor, sizes in bytes.
type Store struct {
	Pair, HandOff, Renewal float64
	// What goes through its network, in both directions together.
	PairBytes, HandOffBytes, RenewalBytes float64
	// Its memory.
	Client, Lease, Waiter float64
}

// Server is what one server has.
type Server struct {
	Processors  float64 // that the store can use
	Busy        float64 // how busy they may be, of 1: the rest is for peaks
	Memory      float64 // bytes
	Network     float64 // bytes a second
	Connections float64
}

// Usual is a server of middle size: one processor, as Redis uses one, 16 GiB, 10 Gbit/s.
var Usual = Server{Processors: 1, Busy: 0.6, Memory: 16 << 30, Network: 1.25e9, Connections: 10_000}

// Need is how much of one resource a wish takes.
type Need struct {
	Resource string
	Amount   float64 // processors that are busy all the time, bytes, bytes a second, or connections
	Servers  float64 // it takes so many to have it
}

// ConnectionsOfClient is for requests one, and for messages one.
const ConnectionsOfClient = 2

// Needs returns what w takes of each resource, the one that gives out first before the others.
func (s Store) Needs(w Wish, on Server) []Need {
	r := w.Renewals()
	list := []Need{
		{Resource: "processor", Amount: w.Pairs*s.Pair + w.HandOffs*s.HandOff + r*s.Renewal},
		{Resource: "memory", Amount: w.Held*s.Lease + w.Waiters*s.Waiter},
		{Resource: "network", Amount: w.Pairs*s.PairBytes + w.HandOffs*s.HandOffBytes + r*s.RenewalBytes},
		{Resource: "connections", Amount: w.Clients * ConnectionsOfClient},
	}
	if !w.Everywhere {
		list[1].Amount += w.Clients * s.Client
	}
	for i, has := range []float64{on.Processors * on.Busy, on.Memory * on.Busy, on.Network * on.Busy, on.Connections} {
		if i == 1 && w.Everywhere {
			has = max(0, has-w.Clients*s.Client)
		}
		list[i].Servers = list[i].Amount / has
		if i == 3 && w.Everywhere && list[i].Servers <= 1 {
			list[i].Servers = 0
		} else if i == 3 && w.Everywhere {
			list[i].Servers = math.Inf(1)
		}
	}
	slices.SortStableFunc(list, func(a, b Need) int { return cmp.Compare(b.Servers, a.Servers) })
	return list
}

// Servers is how many it takes for all.
func Servers(list []Need) float64 { return math.Ceil(max(1, list[0].Servers)) }
