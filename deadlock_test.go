// SPDX-License-Identifier: Apache-2.0

package pawl_test

import (
	"context"
	"errors"
	"fmt"
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
	err    error         // of the wait
	after  time.Duration // how long it took
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
	began := time.Now()
	go func() {
		defer close(x.done)
		x.got, x.err = x.client.Acquire(x.ctx, name, opts...)
		x.after = time.Since(began)
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

// deadlock checks that the wait has ended with an ErrDeadlock and returns its names and
// waiters in order.
func (x *crossing) deadlock(t *testing.T) string {
	t.Helper()
	if !x.ended() {
		t.Fatal("it still waits")
	}
	var dead *pawl.DeadlockError
	if x.got != nil || !errors.As(x.err, &dead) || !errors.Is(x.err, pawl.ErrDeadlock) || errors.Is(x.err, context.Canceled) {
		t.Fatalf("Acquire = %v, %v; want a DeadlockError", x.got, x.err)
	}
	var s []string
	for _, b := range dead.Circle {
		s = append(s, fmt.Sprintf("%s waits for %s of %s", b.Waiter.Who, b.Name, b.By.Who))
	}
	return strings.Join(s, ", ")
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

// Whoever closes a circle gets the error at once, and the others get what they wait for when
// that one lets go.
func TestDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		a := hold(t, open(t, s.Driver(), as("alice")), "a")
		b := hold(t, open(t, s.Driver(), as("bob")), "b")
		c := hold(t, open(t, s.Driver(), as("carol")), "c")
		a.wait("b")
		time.Sleep(5 * time.Minute)
		b.wait("c")
		time.Sleep(2 * time.Second)
		if a.ended() || b.ended() {
			t.Fatalf("there is no circle yet: %v, %v", a.err, b.err)
		}
		c.wait("a")
		time.Sleep(100 * time.Millisecond)
		if got, want := c.deadlock(t), "carol waits for a of alice, alice waits for b of bob, bob waits for c of carol"; got != want {
			t.Errorf("circle: %s; want %s", got, want)
		}
		text := c.err.Error()
		for _, part := range []string{`pawl: acquire "a": deadlock: alice (`, `holds "a" and waits for "b"; bob (`, `holds "b" and waits for "c", which this caller holds`} {
			if !strings.Contains(text, part) {
				t.Errorf("%q does not tell %q", text, part)
			}
		}
		if info, err := a.client.Inspect(t.Context(), "a"); err != nil || len(info.Waiters) > 0 {
			t.Errorf("Inspect = %+v, %v; want no waiter", info, err)
		}
		time.Sleep(10 * time.Minute)
		if a.ended() || b.ended() {
			t.Fatalf("the others do not wait any more: %v, %v", a.err, b.err)
		}
		release(t, c.lease)
		b.freed(t)
		a.freed(t)
	})
}

// Of two that begin at the same time, one gets the error.
func TestDeadlockOfBothAtOnce(t *testing.T) {
	for _, one := range []bool{false, true} {
		t.Run(fmt.Sprintf("oneClient=%v", one), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(memlock.Store)
				slowly := func(string) { time.Sleep(10 * time.Millisecond) } // or one is first
				first := open(t, spy(s, slowly), as("alice"))
				second := first
				if !one {
					second = open(t, spy(s, slowly), as("bob"))
				}
				a, b := hold(t, first, "a"), hold(t, second, "b")
				a.wait("b")
				b.wait("a")
				time.Sleep(200 * time.Millisecond)
				if a.ended() == b.ended() {
					t.Fatalf("ended: %v, %v; want one of them", a.err, b.err)
				}
				if b.ended() {
					a, b = b, a
				}
				a.deadlock(t)
				time.Sleep(10 * time.Minute)
				release(t, a.lease)
				b.freed(t)
			})
		})
	}
}

// The last one gets the error also if another one looks at that very time.
func TestDeadlockIsOfTheLast(t *testing.T) {
	for i := range 32 { // a looks after 50 to 55 ms, and 1 to 1.1 s after that; b after 50 to 55
		after := time.Duration(i%16+1) * 10 * time.Millisecond
		if i >= 16 {
			after += time.Second
		}
		synctest.Test(t, func(t *testing.T) {
			s := new(memlock.Store)
			a, b := hold(t, open(t, s.Driver(), as("alice")), "a"), hold(t, open(t, s.Driver(), as("bob")), "b")
			a.wait("b")
			time.Sleep(after)
			b.wait("a")
			time.Sleep(5 * time.Second)
			if a.ended() {
				t.Fatalf("the first one was told: %v", a.err)
			}
			b.deadlock(t)
			release(t, b.lease)
			a.freed(t)
		})
	}
}

// A goroutine that waits behind another of its client is not in the store's queue. It
// sees the circle that somebody else has closed all the same.
func TestDeadlockBehindAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		c, other := open(t, s.Driver(), as("me")), open(t, s.Driver(), as("bob"))
		a, b := hold(t, c, "a"), hold(t, other, "b")
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

func TestDeadlockOfReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		a := hold(t, open(t, s.Driver(), as("alice")), "a", pawl.Shared())
		b := hold(t, open(t, s.Driver(), as("bob")), "b", pawl.Shared())
		bystander := acquire(t, open(t, s.Driver(), as("carol")), "b", pawl.Shared())
		b.wait("a")
		time.Sleep(time.Second)
		a.wait("b")
		time.Sleep(100 * time.Millisecond)
		if got, want := a.deadlock(t), "alice waits for b of bob, bob waits for a of alice"; got != want {
			t.Errorf("circle: %s; want %s", got, want)
		}
		release(t, a.lease)
		b.freed(t)
		release(t, bystander)
	})
}

// These wait for somebody who waits for a lease of theirs, or seem to, and yet are in no
// circle, or in none that is certain.
func TestNoDeadlock(t *testing.T) {
	two := func(s *memlock.Store, t *testing.T) (*pawl.Client, *pawl.Client) {
		return open(t, s.Driver(), as("alice")), open(t, s.Driver(), as("bob"))
	}
	for _, c := range []struct {
		name     string
		a, b     []pawl.Option // with which a and b are held
		wantB    []pawl.Option // of the holder of a
		wantA    []pawl.Option // of the holder of b
		besides  string        // a name that a third holds
		ofThirds []pawl.Option
	}{
		{name: "slots", b: []pawl.Option{pawl.Slots(2)}, wantB: []pawl.Option{pawl.Slots(2)}, besides: "b", ofThirds: []pawl.Option{pawl.Slots(2)}},
		{name: "a reader behind a writer", b: []pawl.Option{pawl.Shared()}, wantB: []pawl.Option{pawl.Shared()}, besides: "b", ofThirds: []pawl.Option{pawl.Shared()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(memlock.Store)
				alice, bob := two(s, t)
				a, b := hold(t, alice, "a", c.a...), hold(t, bob, "b", c.b...)
				third := open(t, s.Driver(), as("carol"))
				l := acquire(t, third, c.besides, c.ofThirds...)
				if c.name != "slots" {
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
					defer cancel()
					go third.Acquire(ctx, c.besides)
					synctest.Wait()
				}
				b.wait("a", c.wantA...)
				a.wait("b", c.wantB...)
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

// spied is a memlock with a queue, of which a test sees each Inspect when it is over.
type spied struct {
	slow
	saw func(name string)
}

func spy(s *memlock.Store, saw func(name string)) spied {
	return spied{slow{Queuer: s.Driver().(driver.Queuer)}, saw}
}

func (d spied) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	info, err := d.Queuer.(driver.Inspector).Inspect(ctx, name)
	d.saw(name)
	return info, err
}

// While one looks, the waiter that it has seen gives up, and only then another begins: the
// circle that has been seen was never there.
func TestDeadlockIsSeenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		b := hold(t, open(t, s.Driver(), as("bob")), "b")
		c := hold(t, open(t, s.Driver(), as("carol")), "c")
		c.ctx, c.cancel = context.WithCancel(c.ctx)
		var looks atomic.Int32
		a := hold(t, open(t, spy(s, func(name string) {
			if name != "a" {
				return
			}
			if looks.Add(1) == 1 { // c waits for it
				c.cancel()
				<-c.done
				time.Sleep(2 * time.Second) // or a yields to b
				b.wait("c")
				time.Sleep(2 * time.Second)
			}
		}), as("alice")), "a")
		c.wait("a")
		time.Sleep(2 * time.Second)
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

// A holder that lets go between the looks is in no circle any more.
func TestDeadlockIsOverBetweenTheLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		b := hold(t, open(t, s.Driver(), as("bob")), "b")
		waiting, giveUp := context.WithCancel(b.ctx)
		b.ctx = waiting
		var looks atomic.Int32
		a := hold(t, open(t, spy(s, func(string) {
			if looks.Add(1) == 2 {
				giveUp()
				<-b.done
				release(t, b.lease)
			}
		}), as("alice")), "a")
		b.wait("a", pawl.WaitInDeadlock()) // or its look may come first
		a.wait("b")
		time.Sleep(time.Second)
		a.freed(t)
		if looks.Load() < 2 {
			t.Errorf("%d looks", looks.Load())
		}
	})
}

// Nobody looks who holds nothing, or who gets at once what it asks for.
func TestDeadlockCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		var looks atomic.Int32
		c := open(t, spy(s, func(string) { looks.Add(1) }), nil)
		other := acquire(t, open(t, s.Driver(), nil), "other")
		x := &crossing{client: c, ctx: context.Background(), done: make(chan struct{})}
		x.wait("other")
		outer := hold(t, c, "outer")
		inner, err := c.Acquire(outer.ctx, "inner")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if looks.Load() != 0 {
			t.Errorf("%d looks", looks.Load())
		}
		release(t, inner)
		release(t, outer.lease)
		release(t, other)
		synctest.Wait()
		release(t, x.got)
	})
}

// A caller that wants to waits. The other one, which does not, sees the circle when it looks next.
func TestWaitInDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		a := hold(t, open(t, s.Driver(), as("alice")), "a")
		b := hold(t, open(t, s.Driver(), as("bob")), "b")
		a.wait("b", pawl.WaitInDeadlock())
		b.wait("a", pawl.WaitInDeadlock())
		time.Sleep(time.Hour)
		if a.ended() || b.ended() {
			t.Fatalf("ended: %v, %v", a.err, b.err)
		}
		infos, err := a.client.List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if circles := pawl.Deadlocks(infos); len(circles) != 1 || len(circles[0]) != 2 || circles[0][0].Waiter.Who != "bob" || circles[0][0].Name != "a" ||
			circles[0][0].By.Lease != a.lease.ID() || circles[0][1].Waiter.Who != "alice" {
			t.Errorf("Deadlocks = %+v", circles)
		}
		b.cancel()
		synctest.Wait()
		wantIs(t, b.err, context.Canceled)
		b.ctx, b.done = hold(t, b.client, "other").ctx, make(chan struct{})
		b.wait("a", pawl.Holding("b", b.lease.ID()))
		time.Sleep(100 * time.Millisecond)
		b.deadlock(t)
		release(t, b.lease)
		a.freed(t)
	})
}

func TestDeadlockAcrossStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, s2 := new(memlock.Store), new(memlock.Store)
		a := hold(t, open(t, s.Driver(), as("alice")), "a")
		b := hold(t, open(t, s2.Driver(), as("bob")), "a") // the same name, another store
		a.client, b.client = open(t, s2.Driver(), as("alice")), open(t, s.Driver(), as("bob"))
		b.wait("a")
		time.Sleep(2 * time.Second)
		a.wait("a")
		time.Sleep(100 * time.Millisecond)
		if got, want := a.deadlock(t), "alice waits for a of bob, bob waits for a of alice"; got != want {
			t.Errorf("circle: %s; want %s", got, want)
		}
		release(t, a.lease)
		b.freed(t)
	})
}

// AcquireAll holds the first names while it waits for the next.
func TestDeadlockWithAcquireAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		all, b := open(t, s.Driver(), as("alice")), hold(t, open(t, s.Driver(), as("bob")), "b")
		go func() {
			g, err := all.AcquireAll(t.Context(), []string{"b", "a"})
			if err == nil {
				err = g.Release(context.Background())
			}
			if err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(time.Minute)
		b.wait("a")
		time.Sleep(100 * time.Millisecond)
		b.deadlock(t)
		release(t, b.lease)
		synctest.Wait()
	})
}

// A client may be closed, and a context end, in the instant of the error.
func TestDeadlockAndTheEnd(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			s := new(memlock.Store)
			var a, b *crossing
			var looks atomic.Int32
			b = hold(t, open(t, s.Driver(), as("bob")), "b")
			a = hold(t, open(t, spy(s, func(string) {
				if looks.Add(1) == 4 { // which confirms
					go a.cancel()
					go b.client.Close()
				}
			}), as("alice")), "a")
			b.wait("a", pawl.WaitInDeadlock())
			a.wait("b")
			time.Sleep(2 * time.Second)
			// The end of bob's client lets alice in.
			if !a.ended() || a.err != nil && !errors.Is(a.err, pawl.ErrDeadlock) && !errors.Is(a.err, context.Canceled) {
				t.Errorf("Acquire = %v", a.err)
			}
			// Close ends the lease whose context bob waits with, too.
			if !b.ended() || !errors.Is(b.err, pawl.ErrClosed) && !errors.Is(b.err, context.Canceled) {
				t.Errorf("Acquire of a client that was closed = %v", b.err)
			}
		})
	}
}

// Workers that each hold a lease of their own, for which nobody waits, do not look at the long
// queue of the name that they all want.
func TestLooksOfManyWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		hot := acquire(t, open(t, s.Driver(), nil), "hot")
		var own, queue atomic.Int32
		saw := func(name string) {
			if name == "hot" {
				queue.Add(1)
			} else {
				own.Add(1)
			}
		}
		const n = 50
		var all [n]*crossing
		for i := range all {
			all[i] = hold(t, open(t, spy(s, saw), nil), fmt.Sprint("own", i))
			all[i].wait("hot")
		}
		time.Sleep(30 * time.Second)
		if own.Load() != 3*n || queue.Load() != 0 {
			t.Errorf("%d looks at what the waiters hold, %d at the queue; want %d and 0", own.Load(), queue.Load(), 3*n)
		}
		release(t, hot)
		for _, x := range all {
			x.freed(t)
		}
	})
}

// A caller that holds the name itself, by Holding, needs no waiters to be seen.
func TestDeadlockWithItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		a := hold(t, open(t, s.Driver(), as("alice")), "a")
		q := s.Driver().(driver.Queuer)
		a.client = open(t, slow{q, func(ctx context.Context) (*driver.Info, error) {
			info, err := q.(driver.Inspector).Inspect(ctx, "a")
			info.Waiters = nil
			return info, err
		}}, as("alice"))
		a.ctx = context.Background()
		a.wait("a", pawl.Holding("a", a.lease.ID()))
		time.Sleep(100 * time.Millisecond)
		if got, want := a.deadlock(t), "alice waits for a of alice"; got != want {
			t.Errorf("circle: %s; want %s", got, want)
		}
		release(t, a.lease)
	})
}

// A caller waits on, with a context that was cut loose, when its lease has ended. The next lease
// has the same grant and the same id, and waiters for that one close no circle.
func TestNoDeadlockOfALeaseThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		c := open(t, s.Driver(), as("alice"))
		a, b := hold(t, c, "a", pawl.KeepIdle(anHour)), hold(t, open(t, s.Driver(), as("bob")), "b")
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
