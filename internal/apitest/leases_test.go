// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

func acquireAll(t testing.TB, c *pawl.Client, names []string, opts ...pawl.Option) *pawl.Leases {
	t.Helper()
	g, err := c.AcquireAll(context.Background(), names, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestAcquireAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		g := acquireAll(t, c, []string{"c", "a", "b", "a"})
		if names := g.Names(); !slices.Equal(names, []string{"a", "b", "c"}) {
			t.Errorf("Names = %q", names)
		}
		for _, name := range g.Names() {
			if l := g.Lease(name); l == nil || l.Name() != name || l.Token() == 0 {
				t.Errorf("Lease(%q) = %v", name, l)
			}
			if isFree(t, other, name) {
				t.Errorf("%q is free", name)
			}
		}
		if g.Lease("d") != nil {
			t.Error("a lease on a name that was not asked for")
		}
		time.Sleep(time.Hour)
		if err := g.Err(); err != nil || g.Deadline().IsZero() {
			t.Errorf("after an hour: %v, deadline %v", err, g.Deadline())
		}
		ctx := under(t, g)
		for range 2 {
			release(t, g)
		}
		wantIs(t, g.Err(), pawl.ErrReleased)
		wantIs(t, context.Cause(ctx), pawl.ErrReleased)
		<-g.Done()
		wantFree(t, other, g.Names()...)
	})
}

func TestAcquireAllHoldsNothingIfItFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		l := acquire(t, other, "b")
		ctx := within(t, time.Minute)
		if g, err := c.AcquireAll(ctx, []string{"a", "b"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("AcquireAll = %v, %v, want the context's error", g, err)
		}
		wantFree(t, other, "a")
		release(t, l)
		for _, bad := range []struct {
			names []string
			opt   pawl.Option
		}{{nil, nil}, {[]string{"a"}, pawl.NoRenew()}, {[]string{"a", ""}, nil}, {[]string{"a"}, pawl.Slots(0)}} {
			if g, err := c.AcquireAll(context.Background(), bad.names, bad.opt); err == nil {
				t.Errorf("AcquireAll(%q) = %v, want an error", bad.names, g)
			}
		}
		wantFree(t, other, "a")
	})
}

// The leases are trusted until the first of them ends.
func TestDeadlineOfLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		l := acquire(t, other, "b")
		time.AfterFunc(3*time.Second, func() { release(t, l) })
		g := acquireAll(t, c, []string{"a", "b"}) // a first
		if a, b := g.Lease("a").Deadline(), g.Lease("b").Deadline(); !a.Before(b) || !g.Deadline().Equal(a) {
			t.Errorf("Deadline = %v; the leases end at %v and %v", g.Deadline(), a, b)
		}
		release(t, g)
	})
}

// If one is lost, all end.
func TestAcquireAllEndsWithTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		g := acquireAll(t, c, []string{"a", "b", "c"})
		ctx := under(t, g)
		breaks(t, other, g.Lease("b"), "enough")
		<-g.Done()
		synctest.Wait()
		var lost *pawl.LostError
		if err := g.Err(); !errors.As(err, &lost) || lost.Why != "enough" {
			t.Errorf("Err = %v, want who broke it and why", err)
		}
		wantIs(t, context.Cause(ctx), pawl.ErrLost)
		for _, name := range []string{"a", "b", "c"} {
			wantIs(t, g.Lease(name).Err(), pawl.ErrLost)
			wantFree(t, other, name)
		}
		wantIs(t, g.Release(context.Background()), pawl.ErrLost)
	})
}

// A lease may be lost while AcquireAll waits for the rest.
func TestAcquireAllBeginsAnewAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		l := acquire(t, other, "b")
		got := make(chan *pawl.Leases)
		go func() { got <- acquireAll(t, c, []string{"a", "b"}, pawl.MaxHold(time.Hour)) }()
		time.Sleep(2 * time.Hour) // MaxHold has not begun
		info, err := other.Inspect(context.Background(), "a")
		if err != nil || len(info.Holders) != 1 {
			t.Fatalf("%v, %v, want the first name held", info, err)
		}
		if err := other.Break(context.Background(), "a", info.Holders[0].Lease, "x"); err != nil {
			t.Fatal(err)
		}
		mine := acquire(t, other, "a")
		synctest.Wait()
		release(t, l)
		synctest.Wait()
		release(t, mine)
		g := <-got
		if err := g.Err(); err != nil {
			t.Error(err)
		}
		release(t, g)
	})
}

// TestAcquireAllNeverDeadlocks has clients take random sets of names that
// overlap, some of them shared.
func TestAcquireAllNeverDeadlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
		var writers, readers [10]atomic.Int32
		ctx := within(t, time.Hour)
		var all sync.WaitGroup
		for i := range 20 {
			c := open(t, s.Participant(), nil)
			r := rand.New(rand.NewPCG(uint64(i), 10))
			all.Go(func() {
				for range 50 {
					three := r.Perm(len(names))[:3]
					var opts []pawl.Option
					mine := &writers
					if r.IntN(3) == 0 {
						opts, mine = []pawl.Option{pawl.Shared()}, &readers
					}
					g, err := c.AcquireAll(ctx, []string{names[three[0]], names[three[1]], names[three[2]]}, opts...)
					if err != nil {
						t.Errorf("AcquireAll = %v", err)
						return
					}
					for _, n := range three {
						mine[n].Add(1)
						if w := writers[n].Load(); w > 1 || w > 0 && readers[n].Load() > 0 {
							t.Errorf("%q is held by %d writers and %d readers", names[n], w, readers[n].Load())
						}
					}
					time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
					for _, n := range three {
						mine[n].Add(-1)
					}
					release(t, g)
				}
			})
		}
		all.Wait()
		c := open(t, s.Participant(), nil)
		wantFree(t, c, names...)
	})
}

// Releasing one of them releases all.
func TestAcquireAllEndsWithARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		g := acquireAll(t, c, []string{"a", "b", "c"})
		ctx := under(t, g)
		release(t, g.Lease("b"))
		<-g.Done()
		synctest.Wait()
		wantIs(t, g.Err(), pawl.ErrReleased)
		wantIs(t, context.Cause(ctx), pawl.ErrReleased)
		wantFree(t, other, g.Names()...)
		release(t, g)
	})
}

// A lease that was held before has other holds too: it outlives the others.
func TestAcquireAllSparesWhatWasHeldBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		l := acquire(t, c, "a")
		ctx := under(t, l)
		_, err := c.AcquireAll(ctx, []string{"a", "b"})
		wantIs(t, err, pawl.ErrHeld)
		g, err := c.AcquireAll(ctx, []string{"a", "b"}, pawl.Reentrant())
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Release(context.Background()); err != nil || l.Holds() != 1 {
			t.Errorf("Release = %v, %d holds are left, want one", err, l.Holds())
		}
		for _, end := range []func(*pawl.Leases){
			func(*pawl.Leases) { time.Sleep(time.Minute) }, // MaxHold
			func(g *pawl.Leases) {
				breaks(t, other, g.Lease("b"), "enough")
			},
		} {
			g, err := c.AcquireAll(ctx, []string{"a", "b"}, pawl.Reentrant(), pawl.MaxHold(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			end(g)
			<-g.Done()
			synctest.Wait()
			wantIs(t, g.Err(), pawl.ErrLost)
			if l.Err() != nil || ctx.Err() != nil || l.Holds() != 1 {
				t.Errorf("the lease from before: %v, %v, %d holds", l.Err(), ctx.Err(), l.Holds())
			}
			wantFree(t, other, "b")
		}
		release(t, l)
	})
}

// TestAcquireAllMaxHold: leases on several names end after MaxHold by themselves, long before a renewal is due.
func TestAcquireAllMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, new(memlock.Store).Participant(), nil)
		g := acquireAll(t, c, []string{"a", "b"}, pawl.MaxHold(time.Second))
		began := time.Now()
		<-g.Done()
		if held := time.Since(began); held != time.Second {
			t.Errorf("the leases have ended after %v; want a second", held)
		}
	})
}
