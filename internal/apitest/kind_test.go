// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// wish is a call of Acquire in a goroutine of its own.
type wish struct {
	got    chan *pawl.Lease
	cancel context.CancelFunc
}

// want starts a call of Acquire and returns once that waits or has returned.
func want(t *testing.T, c *pawl.Client, opts ...pawl.Option) *wish {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &wish{make(chan *pawl.Lease, 1), cancel}
	go func() {
		if l, err := c.Acquire(ctx, "a", opts...); err == nil {
			w.got <- l
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire = %v", err)
		}
	}()
	synctest.Wait()
	return w
}

// lease returns the lease that the call has got by now.
func (w *wish) lease(t *testing.T) *pawl.Lease {
	t.Helper()
	synctest.Wait()
	select {
	case l := <-w.got:
		return l
	default:
		t.Fatal("Acquire still waits")
		return nil
	}
}

func (w *wish) waits(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if len(w.got) > 0 {
		t.Fatal("Acquire did not wait")
	}
}

// atStore returns how many wait in the store's queue.
func atStore(t *testing.T, c *pawl.Client) int {
	t.Helper()
	synctest.Wait()
	info, err := c.Inspect(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	return len(slices.DeleteFunc(info.Waiters, func(w pawl.Waiter) bool { return w.Local }))
}

func TestReadersOfOneClientStandAtTheStoreTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		l := acquire(t, other, "a")
		r1, r2 := want(t, c, pawl.Shared()), want(t, c, pawl.Shared())
		writer := want(t, c)
		r3 := want(t, c, pawl.Shared())
		if n := atStore(t, c); n != 2 {
			t.Errorf("%d at the store, want the two readers that come first", n)
		}
		release(t, l)
		l1, l2 := r1.lease(t), r2.lease(t)
		writer.waits(t)
		if n := atStore(t, c); n != 1 {
			t.Errorf("%d at the store, want the writer", n)
		}
		release(t, l1)
		release(t, l2)
		l = writer.lease(t)
		r3.waits(t)
		release(t, l)
		release(t, r3.lease(t))
	})
}

// A writer of this client waits for readers of this client. Readers of others
// that come later must not get in before it.
func TestWriterBehindItsOwnReadersIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		reader := acquire(t, c, "a", pawl.Shared())
		writer := want(t, c)
		late := want(t, other, pawl.Shared())
		late.waits(t)
		release(t, reader)
		l := writer.lease(t)
		late.waits(t)
		release(t, l)
		release(t, late.lease(t))
	})
}

func TestWaiterThatGivesUpIsInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		l := acquire(t, other, "a", pawl.Shared())
		theirs := want(t, other)
		first := want(t, c, pawl.Shared())
		writer, second := want(t, c), want(t, c, pawl.Shared())
		if n := atStore(t, c); n != 2 {
			t.Errorf("%d at the store, want theirs and the first reader", n)
		}
		writer.cancel()
		if n := atStore(t, c); n != 3 {
			t.Errorf("%d at the store, want the second reader too", n)
		}
		release(t, l)
		release(t, theirs.lease(t))
		release(t, first.lease(t))
		release(t, second.lease(t))
	})
}

func TestTryAcquireDoesNotOvertakeTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		slow := make(chan struct{})
		arrive := sync.OnceFunc(func() { close(slow) })
		set(d, &d.try, func(_ context.Context, ask func() (driver.Answer, error)) (driver.Answer, error) {
			g, err := ask()
			<-slow // the answer to the reader travels
			return g, err
		})
		c := open(t, d, nil)
		t.Cleanup(arrive) // before the client is closed, which would wait for it for ever
		reader := want(t, c, pawl.Shared())
		writer := want(t, c)
		set(d, &d.try, nil)
		_, err := c.TryAcquire(context.Background(), "a", pawl.Shared())
		wantIs(t, err, pawl.ErrHeld)
		arrive()
		release(t, reader.lease(t))
		time.Sleep(time.Second) // this store has no queue
		release(t, writer.lease(t))
	})
}

// plainStore has exclusive leases only.
type plainStore struct{ driver.Store }

func (plainStore) Caps() driver.Caps {
	return driver.Caps{Guarantees: driver.Guarantees{Expiry: true}}
}

func TestDowngrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := new(memlock.Store)
		var told []string
		tell := func(what string) func(pawl.Event) {
			return func(e pawl.Event) { told = append(told, fmt.Sprintf("%s %d, shared %v", what, e.Token, e.Shared)) }
		}
		c, other, third := open(t, s.Participant(), &pawl.Options{Observer: pawl.Observer{Acquired: tell("acquired"), Released: tell("released")}}),
			open(t, s.Participant(), nil), open(t, s.Participant(), nil)
		l := acquire(t, c, "a")
		within, cancel := l.Context(ctx)
		defer cancel()
		own, reader, writer := want(t, c), want(t, other, pawl.Shared()), want(t, third)
		shared, err := l.Downgrade(within)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantIs(t, context.Cause(within), pawl.ErrReleased)
		if shared.ID() == l.ID() || shared.Token() <= l.Token() || shared.Err() != nil || !errors.Is(l.Err(), pawl.ErrReleased) {
			t.Errorf("%v, %v in place of %v, %v; want a lease of its own", shared, shared.Err(), l, l.Err())
		}
		if want := []string{"acquired 1, shared false", "released 1, shared false", "acquired 2, shared true"}; !slices.Equal(told, want) {
			t.Errorf("the observer was told %q; want %q", told, want)
		}
		release(t, l) // again
		theirs := reader.lease(t)
		writer.waits(t)
		own.waits(t)
		release(t, shared)
		writer.waits(t)
		release(t, theirs)
		release(t, writer.lease(t))
		release(t, own.lease(t))
		if n := inside(c).Lines(); n != 0 {
			t.Errorf("%d lines are left", n)
		}
	})
}

// TestDowngradeIsRefused: a lease that cannot be downgraded goes on as it is.
func TestDowngradeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := open(t, new(memlock.Store).Participant(), nil)
		refused := func(ctx context.Context, l *pawl.Lease, want error) {
			t.Helper()
			before := l.Err()
			if shared, err := l.Downgrade(ctx); shared != nil || !errors.Is(err, want) {
				t.Errorf("Downgrade = %v, %v; want %v", shared, err, want)
			}
			if before == nil {
				wantIs(t, l.Err(), nil)
			}
			_ = l.Release(ctx)
		}
		refused(ctx, acquire(t, open(t, plainStore{new(memlock.Store).Participant()}, nil), "a"), errors.ErrUnsupported)
		refused(ctx, acquire(t, c, "a", pawl.Slots(2)), errors.ErrUnsupported)
		refused(ctx, acquire(t, c, "a", pawl.Shared()), errors.ErrUnsupported)
		over, cancel := context.WithCancel(ctx)
		cancel()
		refused(over, acquire(t, c, "a"), context.Canceled)
		l := acquire(t, c, "a")
		release(t, l)
		refused(ctx, l, pawl.ErrReleased)
		l = acquire(t, c, "a", pawl.NoRenew())
		time.Sleep(pawl.DefaultTTL)
		refused(ctx, l, pawl.ErrLost)
		release(t, acquire(t, c, "a"))
	})
}

// TestDowngradeKeepsOptions: MaxHold and MinHold count from the grant of the exclusive lease.
func TestDowngradeKeepsOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		lower := func(l *pawl.Lease) *pawl.Lease {
			t.Helper()
			time.Sleep(time.Second)
			shared, err := l.Downgrade(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return shared
		}
		began := time.Now()
		l := lower(acquire(t, c, "a", pawl.MaxHold(time.Hour), pawl.MinHold(time.Minute), pawl.Why("to test")))
		info, err := other.Inspect(t.Context(), "a")
		if err != nil || len(info.Holders) != 1 || info.Holders[0].Why != "to test" || info.Holders[0].Lease != l.ID() {
			t.Errorf("Inspect = %+v, %v", info, err)
		}
		<-l.Done()
		if held := time.Since(began); held != time.Hour {
			t.Errorf("it was held for %v; want an hour", held)
		}
		wantIs(t, l.Err(), pawl.ErrLost)
		_ = l.Release(t.Context())
		began = time.Now()
		release(t, lower(acquire(t, c, "a", pawl.MinHold(time.Minute))))
		writer := want(t, other)
		l = <-writer.got
		if kept := time.Since(began); kept != time.Minute {
			t.Errorf("it was kept for %v; want a minute", kept)
		}
		release(t, l)
	})
}

// lowering is a store that downgrades by a function.
type lowering struct {
	driver.Store
	lower func(ctx context.Context, s driver.Store, req *driver.Request) (driver.Answer, error)
}

func (d *lowering) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	if req.Instead != "" {
		return d.lower(ctx, d.Store, req)
	}
	return d.Store.Ask(ctx, req)
}

// TestDowngradeWithoutAnAnswer: whether the store has carried it out or not, the client gives
// everything back.
func TestDowngradeWithoutAnAnswer(t *testing.T) {
	for _, does := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := new(memlock.Store)
			other := open(t, s.Participant(), nil)
			c := open(t, &lowering{s.Participant(), func(ctx context.Context, s driver.Store, req *driver.Request) (driver.Answer, error) {
				if does {
					_, _ = s.Ask(ctx, req)
				}
				return driver.Answer{}, &driver.Failure{Err: errNet, Maybe: true}
			}}, nil)
			l := acquire(t, c, "a")
			next := want(t, other)
			shared, err := l.Downgrade(context.Background())
			if shared != nil {
				t.Errorf("Downgrade = %v", shared)
			}
			wantIs(t, err, errNet)
			wantIs(t, err, pawl.ErrUncertain)
			wantIs(t, l.Err(), pawl.ErrReleased)
			release(t, l)
			release(t, next.lease(t))
		})
	}
}

// TestDowngradeEndsFirst: when the store may let readers in, the writer has ended. Meanwhile
// nobody relies on it, and a Close waits.
func TestDowngradeEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		asked, answer := make(chan struct{}), make(chan struct{})
		c := open(t, &lowering{s.Participant(), func(ctx context.Context, s driver.Store, req *driver.Request) (driver.Answer, error) {
			close(asked)
			<-answer
			return s.Ask(context.WithoutCancel(ctx), req)
		}}, nil)
		l := acquire(t, c, "a")
		within := under(t, l)
		done := make(chan error)
		go func() { _, err := l.Downgrade(t.Context()); done <- err }()
		<-asked
		wantIs(t, l.Err(), pawl.ErrReleased)
		_, err := c.Acquire(within, "a", pawl.Reentrant(), pawl.Shared())
		wantIs(t, err, context.Canceled)
		closed := make(chan error)
		go func() { closed <- c.Close() }()
		synctest.Wait()
		close(answer)
		wantIs(t, <-done, pawl.ErrClosed)
		wantIs(t, <-closed, nil)
		release(t, acquire(t, open(t, s.Participant(), nil), "a"))
	})
}

// TestLinesOfEveryKind has goroutines of two clients ask for leases of every kind
// and give up at random. No two may hold what they must not hold together, and
// in the end nobody waits and nothing is left.
func TestLinesOfEveryKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		clients := []*pawl.Client{open(t, s.Participant(), nil), open(t, s.Participant(), nil)}
		var in [3]atomic.Int32
		var granted atomic.Int32
		var all sync.WaitGroup
		for i := range 24 {
			r := rand.New(rand.NewPCG(uint64(i), 6))
			all.Go(func() {
				for range 100 {
					holdRandomKind(t, r, clients[i%2], &in, &granted)
				}
			})
		}
		all.Wait()
		for _, c := range clients {
			if n := inside(c).Lines(); n != 0 {
				t.Errorf("%d lines are left", n)
			}
		}
		if n := granted.Load(); n < 500 {
			t.Errorf("only %d leases were granted", n)
		}
		release(t, acquire(t, clients[0], "a"))
	})
}

func holdRandomKind(t *testing.T, r *rand.Rand, c *pawl.Client, in *[3]atomic.Int32, granted *atomic.Int32) {
	kind := r.IntN(3)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(60))*time.Millisecond)
	defer cancel()
	opts := [][]pawl.Option{nil, {pawl.Shared()}, {pawl.Slots(3)}}[kind]
	acquire := c.Acquire
	if r.IntN(5) == 0 {
		acquire = c.TryAcquire
	}
	l, err := acquire(ctx, "a", opts...)
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("Acquire = %v", err)
		}
		return
	}
	granted.Add(1)
	in[kind].Add(1)
	for other := range in {
		if n := in[other].Load(); n > 0 && other != kind || n > []int32{1, 1000, 3}[other] {
			t.Errorf("%d of kind %d are held beside kind %d", n, other, kind)
		}
	}
	time.Sleep(time.Duration(r.IntN(4)) * time.Millisecond)
	if kind == 0 && r.IntN(3) == 0 {
		in[0].Add(-1)
		in[1].Add(1)
		kind = 1
		var err error
		if l, err = l.Downgrade(context.Background()); err != nil {
			t.Errorf("Downgrade = %v", err)
			return
		}
		time.Sleep(time.Millisecond)
	}
	in[kind].Add(-1)
	if err := l.Release(context.Background()); err != nil {
		t.Errorf("Release = %v", err)
	}
}

// TestWriterBehindADowngrade: a writer of the same client has its place in the store's queue from
// then on, before readers that come later.
func TestWriterBehindADowngrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		l := acquire(t, c, "a")
		writer := want(t, c)
		l, err := l.Downgrade(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		reader := want(t, other, pawl.Shared())
		reader.waits(t)
		release(t, l)
		release(t, writer.lease(t))
		release(t, reader.lease(t))
	})
}
