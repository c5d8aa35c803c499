// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// crossing is a caller that holds one name and waits for another.
type crossing struct {
	client *pawl.Client
	lease  *pawl.Lease
	ctx    context.Context // of the lease
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of the wait
	got    *pawl.Lease
}

// hold acquires name.
func hold(t *testing.T, c *pawl.Client, name string, opts ...pawl.Option) *crossing {
	x := &crossing{client: c, lease: acquire(t, c, name, opts...), done: make(chan struct{})}
	x.ctx, x.cancel = x.lease.Context(context.Background())
	t.Cleanup(x.cancel)
	return x
}

// wait waits for name in the background.
func (x *crossing) wait(name string, opts ...pawl.Option) {
	go func() {
		defer close(x.done)
		x.got, x.err = x.client.Acquire(x.ctx, name, opts...)
	}()
	synctest.Wait()
}

func (x *crossing) ended() bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// deadlock checks that the wait has ended with an ErrDeadlock and returns its cycle.
func (x *crossing) deadlock(t *testing.T) []pawl.Blocked {
	t.Helper()
	if !x.ended() {
		t.Fatal("it still waits")
	}
	var dead *pawl.DeadlockError
	if x.got != nil || !errors.As(x.err, &dead) || !errors.Is(x.err, pawl.ErrDeadlock) || errors.Is(x.err, context.Canceled) {
		t.Fatalf("Acquire = %v, %v; want a DeadlockError", x.got, x.err)
	}
	return dead.Cycle
}

// freed checks that the wait has ended with a lease, and releases all.
func (x *crossing) freed(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if !x.ended() || x.err != nil {
		t.Fatalf("a waiter whose way is free has ended: %v, %v", x.ended(), x.err)
	}
	release(t, x.got)
	release(t, x.lease)
}

// One caller of a cycle gets the error, whenever they have begun, and the others get what they
// wait for when it lets go.
func TestDeadlock(t *testing.T) {
	shared, slot := []pawl.Option{pawl.Shared()}, []pawl.Option{pawl.Slots(2)}
	for _, c := range []struct {
		name        string
		n           int
		held, waits []pawl.Option // for all callers, or for the last
		oneClient   bool
		besides     []pawl.Option // another has a lease on the first name too
		looks       time.Duration // an Inspect takes this long, so that looks meet
	}{
		{name: "two", n: 2},
		{name: "three", n: 3},
		{name: "three at once", n: 3, looks: 100 * time.Millisecond},
		{name: "one client", n: 2, oneClient: true},
		{name: "readers", n: 2, held: shared, besides: shared},
		{name: "slots", n: 2, held: slot, besides: slot},
		{name: "a slot", n: 3, waits: slot},
		{name: "a reader", n: 3, waits: shared},
	} {
		for apart := time.Duration(0); apart < 4*time.Second && c.looks*apart == 0; apart += 160 * time.Millisecond {
			t.Run(fmt.Sprint(c.name, apart), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := new(memlock.Store)
					var all []*crossing
					for i := range c.n {
						client := open(t, spy(s, func(string) { time.Sleep(c.looks) }), as(fmt.Sprint("caller", i)))
						if c.oneClient && i > 0 {
							client = all[0].client
						}
						all = append(all, hold(t, client, fmt.Sprint("name", i), c.held...))
					}
					if c.besides != nil {
						l := acquire(t, open(t, s.Participant(), nil), "name0", c.besides...)
						defer release(t, l)
					}
					for i, x := range all {
						if i > 0 {
							time.Sleep(apart)
						}
						var opts []pawl.Option
						if i == c.n-1 {
							opts = c.waits
						}
						x.wait(fmt.Sprint("name", (i+1)%c.n), opts...)
					}
					time.Sleep(10 * time.Minute)
					loser := slices.IndexFunc(all, (*crossing).ended)
					if loser < 0 {
						t.Fatal("all still wait")
					}
					for i, b := range all[loser].deadlock(t) {
						if who := (loser + i) % c.n; len(all[loser].deadlock(t)) != c.n || !c.oneClient && b.Waiter.Who != fmt.Sprint("caller", who) || b.By.Lease != all[(who+1)%c.n].lease.ID() {
							t.Errorf("in the cycle of %d: %+v", loser, b)
						}
					}
					if info, err := all[0].client.Inspect(t.Context(), fmt.Sprint("name", (loser+1)%c.n)); err != nil || len(info.Waiters) > 0 {
						t.Errorf("Inspect = %+v, %v; want no waiter", info, err)
					}
					release(t, all[loser].lease)
					if c.besides != nil { // the first name is still held
						return
					}
					for i := range c.n - 1 {
						all[(loser+c.n-1-i)%c.n].freed(t)
					}
				})
			})
		}
	}
}

func TestDeadlockErrorText(t *testing.T) {
	blocked := func(who, name string) pawl.Blocked {
		return pawl.Blocked{Waiter: pawl.Waiter{Holder: pawl.Holder{Who: who}}, Name: name}
	}
	err := &pawl.DeadlockError{Cycle: []pawl.Blocked{blocked("me", "a"), blocked("alice", "b"), blocked("bob", "c")}}
	if got, want := err.Error(), `deadlock: alice holds "a" and waits for "b"; bob holds "b" and waits for "c"; the caller holds "c"`; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// A goroutine that waits behind another of its client is not in the store's queue. It
// sees the cycle that somebody else has closed all the same.
func TestDeadlockBehindAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		c := open(t, s.Participant(), as("me"))
		a, b := hold(t, c, "a"), hold(t, open(t, s.Participant(), as("bob")), "b")
		ctx, cancel := context.WithCancel(context.Background())
		go c.Acquire(ctx, "b")
		synctest.Wait()
		a.wait("b")
		b.wait("a")
		time.Sleep(2 * time.Minute)
		a.deadlock(t)
		cancel()
		release(t, a.lease)
		b.freed(t)
	})
}

// These seem to wait for a lease of each other, and yet it is not certain.
func TestNoDeadlock(t *testing.T) {
	for name, kind := range map[string]pawl.Option{"slots": pawl.Slots(2), "a reader behind a writer": pawl.Shared()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(memlock.Store)
				a, b := hold(t, open(t, s.Participant(), as("alice")), "a"), hold(t, open(t, s.Participant(), as("bob")), "b", kind)
				third := open(t, s.Participant(), as("carol"))
				l := acquire(t, third, "b", kind)
				if name != "slots" {
					ctx := within(t, 3*time.Minute)
					go third.Acquire(ctx, "b")
					synctest.Wait()
				}
				b.wait("a")
				a.wait("b", kind)
				time.Sleep(2 * time.Minute)
				if a.ended() || b.ended() {
					t.Fatalf("ended: %v, %v", a.err, b.err)
				}
				release(t, l)
				time.Sleep(2 * time.Minute)
				a.freed(t)
				b.freed(t)
			})
		})
	}
}

// spy returns a participant that calls saw after each Inspect.
func spy(s *memlock.Store, saw func(name string)) *showing {
	d := show(s, nil)
	d.set(func(ctx context.Context, name string) (*driver.Info, error) {
		defer saw(name)
		return d.Store.Inspect(ctx, name)
	})
	return d
}

// While one looks, the waiter that it has seen gives up, and only then another begins: the
// cycle that has been seen was never there.
func TestDeadlockIsSeenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		b := hold(t, open(t, s.Participant(), as("bob")), "b")
		c := hold(t, open(t, s.Participant(), as("carol")), "c")
		c.ctx, c.cancel = context.WithCancel(c.ctx)
		var looks atomic.Int32
		a := hold(t, open(t, spy(s, func(name string) {
			if name == "a" && looks.Add(1) == 1 { // c waits for it
				c.cancel()
				<-c.done
				b.wait("c")
			}
		}), as("alice")), "a")
		c.wait("a", pawl.WaitInDeadlock())
		a.wait("b")
		time.Sleep(5 * time.Minute)
		if looks.Load() < 2 || !c.ended() || a.ended() || b.ended() {
			t.Fatalf("after %d looks, ended: %v, %v", looks.Load(), a.err, b.err)
		}
		release(t, c.lease)
		b.freed(t)
		a.freed(t)
	})
}

// A caller that holds nothing does not look, nor one that gets at once what it asks for, and
// none looks at a long queue that no cycle goes through.
func TestLooksForDeadlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		hot := acquire(t, open(t, s.Participant(), nil), "hot")
		var own, queue atomic.Int32
		saw := func(name string) {
			if name == "hot" {
				queue.Add(1)
			} else {
				own.Add(1)
			}
		}
		c := open(t, spy(s, saw), nil)
		bare := &crossing{client: c, ctx: context.Background(), done: make(chan struct{})}
		bare.wait("hot")
		outer := hold(t, c, "outer")
		inner, err := c.Acquire(outer.ctx, "inner")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if own.Load() != 0 || queue.Load() != 0 {
			t.Errorf("%d looks at names that are held, %d at the queue; want none", own.Load(), queue.Load())
		}
		release(t, inner)
		release(t, outer.lease)
		const n = 50
		var all [n]*crossing
		for i := range all {
			all[i] = hold(t, open(t, spy(s, saw), nil), fmt.Sprint("own", i))
			all[i].wait("hot")
		}
		time.Sleep(14 * time.Second) // after 1, 2, 4 and 8
		if own.Load() != 4*n || queue.Load() != 0 {
			t.Errorf("%d looks at what the waiters hold, %d at the queue; want %d and 0", own.Load(), queue.Load(), 4*n)
		}
		release(t, hot)
		synctest.Wait()
		release(t, bare.got)
		for _, x := range all {
			x.freed(t)
		}
	})
}

// Other programs write the records of waiters. The store is asked only about names of locks.
func TestDeadlockOfNoNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		var looks atomic.Int32
		a := hold(t, open(t, spy(s, func(name string) {
			looks.Add(1)
			if err := driver.CheckName(name); err != nil {
				t.Errorf("the store is asked: %v", err)
			}
		}), nil), "a")
		b := hold(t, open(t, s.Participant(), nil), "b")
		other := &crossing{client: open(t, s.Participant(), nil), ctx: context.Background(), done: make(chan struct{})}
		other.wait("a", pawl.Holding("", "1"), pawl.Holding("x\x00", "2"), pawl.Holding(strings.Repeat("x", driver.MaxName+1), "3"))
		a.wait("b")
		time.Sleep(5 * time.Second)
		if looks.Load() == 0 {
			t.Error("nobody looked")
		}
		release(t, b.lease)
		a.freed(t)
		synctest.Wait()
		release(t, other.got)
	})
}

func TestWaitInDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		a := hold(t, open(t, s.Participant(), as("alice")), "a")
		b := hold(t, open(t, s.Participant(), as("bob")), "b")
		a.wait("b", pawl.WaitInDeadlock())
		b.wait("a", pawl.WaitInDeadlock())
		time.Sleep(time.Hour)
		if a.ended() || b.ended() {
			t.Fatalf("ended: %v, %v", a.err, b.err)
		}
		b.cancel()
		synctest.Wait()
		wantIs(t, b.err, context.Canceled)
		b.ctx, b.done = hold(t, b.client, "other").ctx, make(chan struct{})
		b.wait("a", pawl.Holding("b", b.lease.ID()))
		time.Sleep(5 * time.Second)
		b.deadlock(t)
		release(t, b.lease)
		a.freed(t)
	})
}

// AcquireAll holds the first names while it waits for the next.
func TestDeadlockWithAcquireAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		all, b := open(t, s.Participant(), as("alice")), hold(t, open(t, s.Participant(), as("bob")), "b")
		go func() {
			g, err := all.AcquireAll(t.Context(), []string{"b", "a"}, pawl.WaitInDeadlock())
			if err == nil {
				err = g.Release(context.Background())
			}
			if err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(time.Minute)
		b.wait("a")
		time.Sleep(5 * time.Second)
		b.deadlock(t)
		release(t, b.lease)
		synctest.Wait()
	})
}

// A caller that holds the name itself, by Holding, needs no waiters to be seen.
func TestDeadlockWithItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		a := hold(t, open(t, s.Participant(), as("alice")), "a")
		q := s.Participant()
		a.client = open(t, show(s, func(ctx context.Context, _ string) (*driver.Info, error) {
			info, err := q.Inspect(ctx, "a")
			info.Waiters = nil
			return info, err
		}), as("alice"))
		a.ctx = context.Background()
		a.wait("a", pawl.Holding("a", a.lease.ID()))
		time.Sleep(2 * time.Second)
		if got := a.deadlock(t); len(got) != 1 || got[0].By.Lease != a.lease.ID() {
			t.Errorf("cycle: %+v", got)
		}
		release(t, a.lease)
	})
}

// A caller waits on, with a context that was cut loose, when its lease has ended. The next lease
// has the same grant and the same id, and waiters for that one close no cycle.
func TestNoDeadlockOfALeaseThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		c := open(t, s.Participant(), as("alice"))
		a, b := hold(t, c, "a", pawl.KeepIdle(anHour)), hold(t, open(t, s.Participant(), as("bob")), "b")
		a.ctx = context.WithoutCancel(a.ctx)
		a.wait("b")
		heir := &crossing{client: c, ctx: context.Background(), done: make(chan struct{})}
		heir.wait("a")
		release(t, a.lease)
		synctest.Wait()
		if heir.got == nil || heir.got.ID() != a.lease.ID() {
			t.Fatal("the lease was not handed over")
		}
		b.wait("a", pawl.WaitInDeadlock())
		time.Sleep(2 * time.Minute)
		if a.ended() || b.ended() {
			t.Fatalf("ended: %v, %v", a.err, b.err)
		}
		release(t, heir.got)
		b.freed(t)
		synctest.Wait()
		if a.err != nil {
			t.Fatal(a.err)
		}
		release(t, a.got)
	})
}

// TestDeadlocks compares Deadlocks with the closure of "waits for a lease of". A name is a
// letter, a lease on it the letter and a digit, and a waiter for it has a capital letter.
func TestDeadlocks(t *testing.T) {
	found := 0
	for seed := range uint64(5_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var before, after []*pawl.Info
		stood, blocked, holds, reach := map[string]bool{}, map[[2]string]bool{}, map[[2]string]bool{}, map[[2]string]bool{}
		for _, name := range []string{"a", "b", "c", "d"} {
			old, info := &pawl.Info{Name: name}, &pawl.Info{Name: name}
			for i := range r.IntN(3) {
				k := []int{0, 0, 0, -1, 1, 2}[r.IntN(6)]
				h := pawl.Held{Lease: fmt.Sprint(name, i), Shared: k < 0, Slots: max(k, 0)}
				info.Holders = append(info.Holders, h)
				if stood[h.Lease] = r.IntN(8) > 0; stood[h.Lease] {
					old.Holders = append(old.Holders, h)
				}
			}
			for i := range r.IntN(3) {
				k := []int{0, 0, 0, -1, 1, 2}[r.IntN(6)]
				w := pawl.Waiter{Lease: fmt.Sprint(strings.ToUpper(name), i), Shared: k < 0, Slots: max(k, 0)}
				for range r.IntN(4) {
					h := fmt.Sprint([]string{"a", "b", "c", "d"}[r.IntN(4)], r.IntN(2))
					w.Holds = append(w.Holds, pawl.Hold{Name: h[:1], Lease: h})
					holds[[2]string{w.Lease, h}] = true
				}
				info.Waiters = append(info.Waiters, w)
				if stood[w.Lease] = r.IntN(8) > 0; stood[w.Lease] {
					old.Waiters = append(old.Waiters, w)
				}
				for _, h := range info.Holders {
					if certain := !w.Shared && w.Slots < 2 || w.Shared && !h.Shared || w.Slots > 1 && h.Slots == 0; certain && stood[w.Lease] && stood[h.Lease] {
						blocked[[2]string{w.Lease, h.Lease}] = true
					}
				}
			}
			before, after = append(before, old), append(after, info)
		}
		for b := range blocked {
			for h := range holds {
				if h[1] == b[1] && stood[h[0]] {
					reach[[2]string{b[0], h[0]}] = true
				}
			}
		}
		for range 8 { // waiters at most
			for x := range maps.Clone(reach) {
				for y := range maps.Clone(reach) {
					if x[1] == y[0] {
						reach[[2]string{x[0], y[1]}] = true
					}
				}
			}
		}
		told := map[string]bool{}
		for _, cycle := range pawl.Deadlocks(before, after) {
			found++
			for i, b := range cycle {
				told[b.Waiter.Lease] = true
				if next := cycle[(i+1)%len(cycle)]; !blocked[[2]string{b.Waiter.Lease, b.By.Lease}] || !holds[[2]string{next.Waiter.Lease, b.By.Lease}] || b.By.Lease[:1] != b.Name {
					t.Fatalf("seed %d: no cycle: %+v", seed, cycle)
				}
			}
		}
		for id := range stood {
			if told[id] != reach[[2]string{id, id}] {
				t.Fatalf("seed %d: %s is in a cycle: %v, told: %v", seed, id, !told[id], told[id])
			}
		}
	}
	if found < 500 {
		t.Errorf("only %d cycles were found", found)
	}
}
