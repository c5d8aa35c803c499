// SPDX-License-Identifier: Apache-2.0

package prompawl_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/metrics/prompawl"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// first is the part of a name before the first slash.
func first(name string) string {
	class, _, _ := strings.Cut(name, "/")
	return class
}

func open(t *testing.T, d driver.Store, m *prompawl.Metrics) *pawl.Client {
	t.Helper()
	c, err := pawl.New(d, &pawl.Options{TTL: 9 * time.Second, Observer: m.Observer()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func acquire(t *testing.T, c *pawl.Client, name string, opts ...pawl.Option) *pawl.Lease {
	t.Helper()
	l, err := c.Acquire(t.Context(), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// want compares some metrics, but for their help, once the observer has been told of all
// events.
func want(t *testing.T, m *prompawl.Metrics, text string, names ...string) {
	t.Helper()
	synctest.Wait()
	text = strings.ReplaceAll(strings.TrimSpace(text), "\t", "") + "\n"
	if err := testutil.CollectAndCompare(m, strings.NewReader(text), names...); err != nil {
		t.Error(err)
	}
}

func TestOneHoldsAndOneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := prompawl.New(&prompawl.Options{Class: first})
		s := new(memlock.Store)
		c, other := open(t, s.Participant(), m), open(t, s.Participant(), m)
		held := acquire(t, c, "invoice/1")
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := acquire(t, other, "invoice/1").Release(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(20 * time.Second)
		live := func(numbers string) {
			t.Helper()
			n := strings.Fields(numbers)
			want(t, m, strings.NewReplacer("HELD", n[0], "OLDEST", n[1], "WAITING", n[2]).Replace(`
			# HELP pawl_held Leases that are held.
			# TYPE pawl_held gauge
			pawl_held{class="invoice",kind="exclusive"} HELD
			# HELP pawl_held_oldest_seconds For how long the lease is held that has been held for longest; 0 if none is.
			# TYPE pawl_held_oldest_seconds gauge
			pawl_held_oldest_seconds{class="invoice",kind="exclusive"} OLDEST
			# HELP pawl_waiting Calls of Acquire that wait.
			# TYPE pawl_waiting gauge
			pawl_waiting{class="invoice",kind="exclusive"} WAITING
			`), "pawl_held", "pawl_held_oldest_seconds", "pawl_waiting")
		}
		live("1 20 1")
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		<-done
		live("0 0 0")
		for metric, sum := range map[string]float64{
			`pawl_wait_duration_seconds granted`: 20, `pawl_hold_duration_seconds released`: 20,
		} {
			name, outcome, _ := strings.Cut(metric, " ")
			if n, got := histogram(t, m, name, outcome); n != 2 || got != sum {
				t.Errorf("%s: %d with the sum %v; want 2 with %v", metric, n, got, sum)
			}
		}
	})
}

// histogram returns count and sum of the series of a histogram with an outcome, or with
// whatever if that is "".
func histogram(t *testing.T, m *prompawl.Metrics, name, outcome string) (uint64, float64) {
	t.Helper()
	synctest.Wait()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(m)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			matches := outcome == ""
			for _, l := range s.GetLabel() {
				matches = matches || l.GetName() == "outcome" && l.GetValue() == outcome
			}
			if f.GetName() == name && matches {
				return s.GetHistogram().GetSampleCount(), s.GetHistogram().GetSampleSum()
			}
		}
	}
	t.Fatalf("there is no %s with %q", name, outcome)
	return 0, 0
}

// A wait that ends without a lease, and leases that end in each way. The name itself is
// nowhere unless it is asked for.
func TestOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := prompawl.New(nil)
		s := new(memlock.Store)
		c, other := open(t, s.Participant(), m), open(t, s.Participant(), m)
		limited := acquire(t, c, "secret/1", pawl.MaxHold(2*time.Second))
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := other.Acquire(short, "secret/1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire = %v", err)
		}
		if _, err := other.TryAcquire(t.Context(), "secret/1"); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("TryAcquire = %v", err)
		}
		time.Sleep(2 * time.Second)
		limited.Release(t.Context())
		reader, err := other.TryAcquire(t.Context(), "secret/2", pawl.Shared())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Break(t.Context(), "secret/2", reader.ID(), "test"); err != nil {
			t.Fatal(err)
		}
		<-reader.Done()
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = other.Acquire(t.Context(), "secret/3") // refused: it did not wait
		if !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("Acquire = %v", err)
		}
		want(t, m, `
			# HELP pawl_lost_total Leases that ended although their holder did not release them.
			# TYPE pawl_lost_total counter
			pawl_lost_total{class="",kind="exclusive",reason="broken"} 0
			pawl_lost_total{class="",kind="exclusive",reason="expired"} 0
			pawl_lost_total{class="",kind="exclusive",reason="gone"} 0
			pawl_lost_total{class="",kind="exclusive",reason="limit"} 1
			pawl_lost_total{class="",kind="exclusive",reason="stuck"} 0
			pawl_lost_total{class="",kind="shared",reason="broken"} 1
			pawl_lost_total{class="",kind="shared",reason="expired"} 0
			pawl_lost_total{class="",kind="shared",reason="gone"} 0
			pawl_lost_total{class="",kind="shared",reason="limit"} 0
			pawl_lost_total{class="",kind="shared",reason="stuck"} 0
			`, "pawl_lost_total")
		for metric, value := range map[string]float64{
			"pawl_wait_duration_seconds gave_up": 1, "pawl_wait_duration_seconds failed": 0, "pawl_hold_duration_seconds lost": 2,
		} {
			name, outcome, _ := strings.Cut(metric, " ")
			if n, sum := histogram(t, m, name, outcome); n != 1 || sum != value {
				t.Errorf("%s: %d with the sum %v; want 1 with %v", metric, n, sum, value)
			}
		}
		if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
			t.Errorf("the linter of Prometheus says %v, %v", problems, err)
		}
	})
}

func TestRenewalMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := prompawl.New(nil)
		l := acquire(t, open(t, new(memlock.Store).Participant(), m), "a")
		time.Sleep(100 * time.Second)
		n, sum := histogram(t, m, "pawl_renewal_margin_ratio", "")
		if mean := sum / float64(n); n < 30 || mean < 0.65 || mean > 0.7 {
			t.Errorf("%d renewals with %.2f of the TTL left; want some 35 with two thirds", n, mean)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
