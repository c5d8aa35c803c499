// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"math"
	"testing"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got/want-1) > within {
		t.Errorf("%s = %.4g; want %.4g within %.0f %%", what, got, want, 100*within)
	}
}

// path has the same times for each pair, whatever the load.
func path(client, server, rest float64) Path {
	return Fit(1, Measured{Callers: 1, Rate: 1 / (client + server + rest), Client: client, Server: server, Batch: 1})
}

// TestClosedIsTheTheory: what queues of one station, and of two that are equal, are known
// to carry.
func TestClosedIsTheTheory(t *testing.T) {
	one := path(0, 1, 9)
	near(t, "one caller", one.Closed(1).Rate, 0.1, 1e-9)
	near(t, "very many callers", one.Closed(1000).Rate, 1, 1e-6)
	near(t, "how busy the server is", one.Closed(1000).Server, 1, 1e-6)
	two := path(2, 2, 0)
	for _, n := range []int{1, 2, 5, 64} {
		near(t, "two equal stations", two.Closed(n).Rate, float64(n)/float64(n+1)/2, 1e-9)
		near(t, "time", two.Closed(n).Time*two.Closed(n).Rate, float64(n), 1e-9) // Little's law
	}
}

// TestPathIsWhatWasMeasured: what was measured is predicted, and what is in between lies
// in between.
func TestPathIsWhatWasMeasured(t *testing.T) {
	p := Fit(24, Measured{Callers: 64, Client: 2, Server: 3, Batch: 16}, Measured{Callers: 1, Rate: 1. / 250, Client: 100, Server: 100, Batch: 1})
	near(t, "rest", p.Rest, 50, 1e-9)
	for _, m := range p.measured {
		got := p.At(float64(m.Callers))
		near(t, "client", got.Client, m.Client, 1e-9)
		near(t, "server", got.Server, m.Server, 1e-9)
		near(t, "locks in a call", got.Batch, m.Batch, 1e-9)
	}
	mid := p.At(8)
	near(t, "locks in a call of 8", mid.Batch, 4, 1e-9)
	if mid.Client >= 100 || mid.Client <= 2 {
		t.Errorf("8 callers: %+v", mid)
	}
	if b := p.At(1e6).Batch; b != 24 {
		t.Errorf("%v locks in a call; want 24 at most", b)
	}
	if c := p.At(1e6).Client; c < 0 || c > 2 {
		t.Errorf("very many callers: %v", c)
	}
	if three := Fit(24, p.measured[0], Measured{Callers: 16, Client: 9, Server: 9, Batch: 6}, p.measured[1]); three.At(16).Client != 9 {
		t.Errorf("of three: %+v", three.At(16))
	}
}

// TestPathAgainstTheBench: what is predicted from four loads of a Redis is within a fifth of
// what others came to. The figures are those of docs/scale.md, by go run ./bench -scale redis.
func TestPathAgainstTheBench(t *testing.T) {
	const micro = 1e-6
	p := Fit(20,
		Measured{1, 2967, 165.6 * micro, 152.5 * micro, 1},
		Measured{4, 8847, 63.8 * micro, 58.2 * micro, 2.9},
		Measured{16, 23810, 29.4 * micro, 27.9 * micro, 6.2},
		Measured{64, 48870, 18.3 * micro, 16.9 * micro, 14.3},
	)
	for _, m := range []struct {
		callers int
		rate    float64
	}{{1, 2967}, {2, 4647}, {4, 8847}, {8, 14900}, {16, 23810}, {32, 41598}, {64, 48870}, {128, 53683}, {256, 54903}} {
		got := p.Closed(m.callers)
		t.Logf("%d callers: %.0f a second, %.2f of what was measured", m.callers, got.Rate, got.Rate/m.rate)
		near(t, fmt.Sprint(m.callers, " callers"), got.Rate, m.rate, 0.2)
		if max(got.Client, got.Server) > 1+1e-9 {
			t.Errorf("%d callers: %+v", m.callers, got)
		}
	}
}

func TestOpen(t *testing.T) {
	near(t, "half busy", Open(1, 0.5), 2, 1e-9)
	if !math.IsInf(Open(1, 1), 1) || !math.IsInf(Open(1, 2), 1) {
		t.Error("an overloaded station answers")
	}
}
