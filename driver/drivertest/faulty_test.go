// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// faultBench is a Faulty around one participant, and another without faults.
type faultBench struct {
	*env
	f     *Faulty
	d     driver.Driver
	other driver.Driver
}

// bench runs f in a bubble.
func bench(t *testing.T, rules []Rule, f func(b *faultBench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, new(mutant).harness())
		b := &faultBench{env: e, f: NewFaulty(e.open(), rules...), other: e.open()}
		b.d = b.f.Driver()
		f(b)
		b.d.Close()
	})
}

func (b *faultBench) attempt() (driver.Grant, error) {
	ctx, cancel := context.WithTimeout(b.ctx, time.Second)
	defer cancel()
	return b.d.TryAcquire(ctx, b.request(b.name("deploy")))
}

func TestFaultyAcquire(t *testing.T) {
	tests := []struct {
		rule  Rule
		want  error // of the attempt
		grant bool  // comes with it
		held  bool  // in the store afterwards
	}{
		{Rule{Op: Renew}, nil, true, true},
		{Rule{Name: "another"}, nil, true, true},
		{Rule{After: 1}, nil, true, true},
		{Rule{Effect: FailBefore}, driver.ErrUnavailable, false, false},
		{Rule{Effect: FailAfter}, driver.ErrUncertain, true, true},
		{Rule{Effect: SlowBefore, Delay: time.Millisecond}, nil, true, true},
		{Rule{Effect: SlowBefore, Delay: time.Minute}, context.DeadlineExceeded, true, true},
		{Rule{Effect: SlowAfter, Delay: time.Millisecond}, nil, true, true},
		{Rule{Effect: SlowAfter, Delay: time.Minute}, context.DeadlineExceeded, true, true},
		{Rule{Effect: Hang}, context.DeadlineExceeded, false, false},
	}
	for _, test := range tests {
		t.Run(test.rule.String(), func(t *testing.T) {
			bench(t, []Rule{test.rule}, func(b *faultBench) {
				g, err := b.attempt()
				if !errors.Is(err, test.want) || (g != nil) != test.grant {
					t.Fatalf("TryAcquire = %v, %v; want a grant: %v, %v", g, err, test.grant, test.want)
				}
				time.Sleep(time.Minute) // what is late arrives
				if !test.held {
					b.free(b.other, b.name("deploy"))
					return
				}
				b.held(b.other, b.name("deploy"))
				b.f.Clear()
				b.release(g)
				b.free(b.other, b.name("deploy"))
			})
		})
	}
}

// TestFaultyUndo releases a late attempt before it has arrived.
func TestFaultyUndo(t *testing.T) {
	bench(t, []Rule{{Op: TryAcquire, Effect: SlowBefore, Delay: time.Minute}}, func(b *faultBench) {
		g, _ := b.attempt()
		b.release(g) // waits for its turn behind the attempt
		b.free(b.other, b.name("deploy"))
	})
}

func TestFaultyCount(t *testing.T) {
	bench(t, []Rule{
		{Op: TryAcquire, After: 1, Count: 2, Effect: FailBefore},
		{Op: TryAcquire, Count: 1, Effect: FailAfter},
	}, func(b *faultBench) {
		for i, want := range []error{nil, driver.ErrUnavailable, driver.ErrUnavailable, driver.ErrUncertain, nil} {
			g, err := b.attempt()
			if !errors.Is(err, want) {
				t.Errorf("call %d = %v; want %v", i, err, want)
			}
			if g != nil {
				b.release(g)
			}
		}
		if got := b.f.Calls(TryAcquire); got != 5 {
			t.Errorf("%d calls; want 5", got)
		}
		if got := b.f.Calls(AnyOp); got != 8 {
			t.Errorf("%d calls of any kind; want 8", got)
		}
		const want = `[]drivertest.Rule{
	{Op: drivertest.TryAcquire, After: 1, Count: 2, Effect: drivertest.FailBefore}, // matched 3 calls
	{Op: drivertest.TryAcquire, Count: 1, Effect: drivertest.FailAfter}, // matched 1 calls
}`
		if got := b.f.String(); got != want {
			t.Errorf("the plan is %s; want %s", got, want)
		}
	})
}

func TestFaultyCut(t *testing.T) {
	bench(t, nil, func(b *faultBench) {
		name := b.name("deploy")
		g := b.try(b.other, name)
		w := b.wait(b.d, b.request(name))
		b.f.Cut()
		w.returned(time.Second)
		if !errors.Is(w.err, driver.ErrUncertain) {
			t.Errorf("Acquire during a cut = %v; want ErrUncertain", w.err)
		}
		if _, err := b.attempt(); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("TryAcquire during a cut = %v; want ErrUnavailable", err)
		}
		b.release(g)
		b.f.Heal()
		mine := b.try(b.d, name)
		calls, _ := b.letGo(mine)
		b.f.Cut()
		b.breakHolder(b.other, name)
		b.pause()
		b.f.Heal()
		if n := calls.Load(); n != 0 {
			t.Error("news of a loss came through a cut")
		}
		b.lost("Release after the cut", mine.Release(b.ctx))
	})
}

// TestFaultyReserves: the tokens that a grant has set aside are so behind faults, too.
func TestFaultyReserves(t *testing.T) {
	for _, m := range []*mutant{{}, {reserve: 7}} {
		d := m.driver(new(memlock.Store))
		g, err := NewFaulty(d).Driver().TryAcquire(t.Context(), &driver.Request{
			Name: "deploy", Lease: "1", TTL: time.Minute, Holder: new(driver.Holder),
		})
		if err != nil {
			t.Fatal(err)
		}
		if n, others := g.(driver.Reserver).Reserved(); n != m.reserve || others {
			t.Errorf("Reserved of a grant with %d tokens = %d, %v", m.reserve, n, others)
		}
	}
}

// TestFaultyForwards checks that a Faulty has the optional interfaces of what is
// behind it, and no others.
func TestFaultyForwards(t *testing.T) {
	full := new(memlock.Store).Driver().(fullDriver)
	drivers := map[string]driver.Driver{
		"":                 struct{ driver.Driver }{full},
		"Queuer":           struct{ driver.Queuer }{full},
		"Inspector":        struct{ driver.Inspector }{full},
		"Queuer Inspector": full,
	}
	for want, d := range drivers {
		got := ""
		f := NewFaulty(d).Driver()
		if _, ok := f.(driver.Queuer); ok {
			got = "Queuer"
		}
		if _, ok := f.(driver.Inspector); ok {
			got += " Inspector"
		}
		if got != want && got != " "+want {
			t.Errorf("Faulty of a driver with %q has %q", want, got)
		}
	}
	type (
		n = driver.Notifier
		i = inheriter
	)
	grants := [][]any{
		{struct{ driver.Grant }{}, false, false},
		{struct {
			driver.Grant
			n
		}{}, true, false},
		{struct {
			driver.Grant
			i
		}{}, false, true},
		{struct {
			driver.Grant
			n
			i
		}{}, true, true},
	}
	for _, g := range grants {
		f := NewFaulty(full).grant("deploy", g[0].(driver.Grant))
		_, isN := f.(n)
		_, isI := f.(i)
		if isN != g[1] || isI != g[2] {
			t.Errorf("Faulty of %T is Notifier %v, Inheriter %v", g[0], isN, isI)
		}
	}
}
