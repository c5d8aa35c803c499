// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"math"
	"testing"
)

func TestNeeds(t *testing.T) {
	s := Store{Pair: 1e-4, HandOff: 2e-4, Renewal: 5e-5, PairBytes: 1000, HandOffBytes: 2000, RenewalBytes: 500, Client: 10_000, Lease: 500, Waiter: 300}
	on := Server{Processors: 2, Busy: 0.5, Memory: 1e9, Network: 1e6, Connections: 1000}
	w := Wish{Clients: 100, Held: 1e5, TTL: 30, Waiters: 10, Pairs: 1000, HandOffs: 500}
	got := map[string]Need{}
	for _, n := range s.Needs(w, on) {
		got[n.Resource] = n
	}
	near(t, "renewals", w.Renewals(), 1e4, 1e-9)
	near(t, "processor", got["processor"].Amount, 0.1+0.1+0.5, 1e-9)
	near(t, "servers", got["processor"].Servers, 0.7, 1e-9)
	near(t, "memory", got["memory"].Amount, 1e6+5e7+3e3, 1e-9)
	near(t, "network", got["network"].Amount, 1e6+1e6+5e6, 1e-9)
	near(t, "connections", got["connections"].Servers, 0.1*ConnectionsOfClient, 1e-9)
	list := s.Needs(w, on)
	if list[0].Resource != "network" || Servers(list) != 14 {
		t.Errorf("%+v: %v servers", list, Servers(list))
	}
	for i := 1; i < len(list); i++ {
		if list[i].Servers > list[i-1].Servers {
			t.Errorf("not sorted: %+v", list)
		}
	}
	if n := Servers(s.Needs(Wish{}, on)); n != 1 {
		t.Errorf("nothing takes %v servers", n)
	}
}

// TestNeedsEverywhere: what each client has at each server does not become less with more
// of them.
func TestNeedsEverywhere(t *testing.T) {
	s := Store{Client: 1e4, Pair: 1e-4}
	w := Wish{Clients: 6000, Pairs: 1e5, Everywhere: true}
	list := s.Needs(w, Server{Processors: 1, Busy: 1, Memory: 1e8, Network: 1, Connections: 10_000})
	if list[0].Resource != "connections" || !math.IsInf(list[0].Servers, 1) {
		t.Errorf("%+v", list)
	}
	w.Clients = 100
	list = s.Needs(w, Server{Processors: 1, Busy: 1, Memory: 1e8, Network: 1, Connections: 10_000})
	if list[0].Resource != "processor" || Servers(list) != 10 {
		t.Errorf("%+v", list)
	}
}

// TestStores: all that the command estimates for have what an estimate needs.
func TestStores(t *testing.T) {
	for scheme, s := range Stores {
		if min(s.Pair, s.HandOff, s.Renewal, s.Client, s.Lease, s.Waiter) <= 0 {
			t.Errorf("%s: %+v", scheme, s)
		}
		m := s.Measured(2*s.Pair, 3*s.HandOff)
		near(t, scheme+": a pair", m.Pair, 2*s.Pair, 1e-9)
		near(t, scheme+": a hand-off", m.HandOff, 3*s.HandOff, 1e-9)
		near(t, scheme+": a renewal", m.Renewal, 2*s.Renewal, 1e-9)
	}
	near(t, "a renewal of another store", Store{}.Measured(1, 2).Renewal, 0.5, 1e-9)
}
