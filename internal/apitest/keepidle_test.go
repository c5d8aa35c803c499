// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// recalling is a tapped store with all abilities of memlock, which can be deaf to others who want a name.
type recalling struct {
	*tapped
	deaf atomic.Bool
}

func recall(s *memlock.Store) *recalling { return &recalling{tapped: tap(s)} }

func (d *recalling) Caps() driver.Caps { return d.Store.Caps() }

// requests counts requests except renewals.
func (d *recalling) requests() int64 { return d.tries.Load() + d.releases.Load() }

func (d *recalling) Listen(f func(driver.Event)) {
	d.Store.Listen(func(e driver.Event) {
		if e.Kind != driver.Wanted || !d.deaf.Load() {
			f(e)
		}
	})
}

const anHour = time.Hour // longer than what else ends what is kept

// kept begins a test of two clients with a TTL of 30 s, of which the first keeps "a".
func kept(t *testing.T, f func(t *testing.T, d *recalling, c, other *pawl.Client, first pawl.Token)) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := recall(s)
		c, other := open(t, d, nil), open(t, s.Participant(), nil)
		l := acquire(t, c, "a", pawl.KeepIdle(anHour))
		release(t, l)
		wantIs(t, l.Err(), pawl.ErrReleased)
		if n := d.requests(); n != 1 {
			t.Fatalf("%d requests; want one that acquires", n)
		}
		f(t, d, c, other, l.Token())
	})
}

// again acquires and releases, and returns whether that needed no request.
func again(t *testing.T, d *recalling, c *pawl.Client) (free bool, token pawl.Token) {
	t.Helper()
	before := d.requests()
	l := acquire(t, c, "a", pawl.KeepIdle(anHour))
	free = d.requests() == before
	if l.Err() != nil {
		t.Fatalf("acquired, and %v", l.Err())
	}
	release(t, l)
	return free, l.Token()
}

func TestKeepIdleCostsNoRequest(t *testing.T) {
	kept(t, func(t *testing.T, d *recalling, c, _ *pawl.Client, last pawl.Token) {
		for range 1000 {
			free, token := again(t, d, c)
			if !free || token != last+1 {
				t.Fatalf("token %d after %d, without a request: %v", token, last, free)
			}
			last = token
		}
		l, err := c.TryAcquire(t.Context(), "a")
		if err != nil || l.Token() != last+1 || d.requests() != 1 {
			t.Fatalf("TryAcquire: %v, %d requests", err, d.requests())
		}
		release(t, l) // without KeepIdle
		if d.requests() != 2 || !isFree(t, c, "a") {
			t.Error("a lease without KeepIdle is kept")
		}
	})
}

// Nobody finds a name held because of a lease that nobody uses.
func TestKeepIdleGivesWayToOthers(t *testing.T) {
	for name, call := range map[string]func(*pawl.Client) (*pawl.Lease, error){
		"acquire": func(c *pawl.Client) (*pawl.Lease, error) { return c.Acquire(context.Background(), "a") },
		"try":     func(c *pawl.Client) (*pawl.Lease, error) { return c.TryAcquire(context.Background(), "a") },
		"shared": func(c *pawl.Client) (*pawl.Lease, error) {
			return c.TryAcquire(context.Background(), "a", pawl.Shared())
		},
		"all": func(c *pawl.Client) (*pawl.Lease, error) {
			all, err := c.TryAcquireAll(context.Background(), []string{"a", "b"})
			if err != nil {
				return nil, err
			}
			return all.Lease("a"), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			kept(t, func(t *testing.T, d *recalling, c, other *pawl.Client, last pawl.Token) {
				time.Sleep(10 * time.Second)
				began := time.Now()
				l, err := call(other)
				if took := time.Since(began); err != nil || took > 5*time.Millisecond {
					t.Fatalf("%v after %v", err, took)
				}
				if l.Token() <= last {
					t.Errorf("token %d after %d", l.Token(), last)
				}
				if _, err := c.TryAcquire(t.Context(), "a"); !errors.Is(err, pawl.ErrHeld) {
					t.Errorf("the client that kept it: %v, want ErrHeld", err)
				}
				release(t, l)
			})
		})
	}
}

// A lease that is in use is reported as held, and is not kept after that.
func TestKeepIdleInUse(t *testing.T) {
	kept(t, func(t *testing.T, d *recalling, c, other *pawl.Client, _ pawl.Token) {
		l := acquire(t, c, "a", pawl.KeepIdle(anHour))
		for range 2 {
			began := time.Now()
			_, err := other.TryAcquire(t.Context(), "a")
			wantIs(t, err, pawl.ErrHeld)
			if took := time.Since(began); took > 150*time.Millisecond {
				t.Errorf("ErrHeld after %v", took)
			}
		}
		release(t, l)
		if d.requests() != 2 || !isFree(t, other, "a") {
			t.Error("a lease is kept that others want")
		}
	})
}

// Without the message others wait for the TTL, and nobody holds the name together with
// them.
func TestKeepIdleRecallIsLost(t *testing.T) {
	kept(t, func(t *testing.T, d *recalling, c, other *pawl.Client, last pawl.Token) {
		d.deaf.Store(true)
		began := time.Now()
		_, err := other.TryAcquire(t.Context(), "a")
		wantIs(t, err, pawl.ErrHeld)
		if took := time.Since(began); took > 150*time.Millisecond {
			t.Errorf("ErrHeld after %v", took)
		}
		got := make(chan *pawl.Lease)
		go func() { got <- acquire(t, other, "a") }()
		var l *pawl.Lease
		for l == nil {
			mine, err := c.TryAcquire(t.Context(), "a", pawl.KeepIdle(anHour))
			if err == nil {
				last = mine.Token()
				time.Sleep(time.Second)
				if mine.Err() == nil {
					release(t, mine)
				}
			}
			select {
			case l = <-got:
			case <-time.After(time.Millisecond):
			}
		}
		if took := time.Since(began); took > 32*time.Second {
			t.Errorf("another client got the name after %v", took)
		}
		if l.Token() <= last {
			t.Errorf("token %d after %d", l.Token(), last)
		}
		release(t, l)
	})
}

// What is kept is not renewed, and is used no more when half of its TTL is over.
func TestKeepIdleEnds(t *testing.T) {
	kept(t, func(t *testing.T, d *recalling, c, other *pawl.Client, last pawl.Token) {
		time.Sleep(14 * time.Second)
		if free, _ := again(t, d, c); !free {
			t.Error("it is not used again before half of its TTL is over")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := d.requests(); n != 2 || d.renewals.Load() > 0 {
			t.Errorf("%d requests and %d renewals; want one more request, that gives it back", n, d.renewals.Load())
		}
		if inside(c).Lines() != 0 {
			t.Error("its line is left")
		}
		wantFree(t, other, "a")
	})
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := recall(s)
		c, other := open(t, d, nil), open(t, s.Participant(), nil)
		release(t, acquire(t, c, "a", pawl.KeepIdle(time.Second)))
		d.deaf.Store(true)
		began := time.Now()
		release(t, acquire(t, other, "a"))
		if took := time.Since(began); took != time.Second {
			t.Errorf("another got the name after %v, want 1s", took)
		}
	})
}

// A process that is stopped while it keeps a name, for longer than the TTL.
func TestKeepIdleInAStoppedProcess(t *testing.T) {
	kept(t, func(t *testing.T, d *recalling, c, other *pawl.Client, last pawl.Token) {
		d.deaf.Store(true)
		stopTimers(c)
		time.Sleep(31 * time.Second)
		l := acquire(t, other, "a")
		if _, err := c.TryAcquire(t.Context(), "a", pawl.KeepIdle(anHour)); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("TryAcquire after the stop: %v, want ErrHeld", err)
		}
		release(t, l)
		if free, token := again(t, d, c); free || token <= l.Token() {
			t.Errorf("token %d after %d, without a request: %v", token, l.Token(), free)
		}
	})
}

func TestKeepIdleIsBroken(t *testing.T) {
	kept(t, func(t *testing.T, d *recalling, c, other *pawl.Client, last pawl.Token) {
		info, err := c.Inspect(t.Context(), "a")
		if err != nil || !info.Holders[0].Idle || !info.Holders[0].Keeps {
			t.Fatalf("Inspect by its client: %+v, %v", info, err)
		}
		info, err = other.Inspect(t.Context(), "a")
		if err != nil || info.Holders[0].Idle || !info.Holders[0].Keeps {
			t.Fatalf("Inspect by another: %+v, %v", info, err)
		}
		if err := other.Break(t.Context(), "a", info.Holders[0].Lease, "test"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the news is as late as for a holder
		l := acquire(t, other, "a")
		if _, err := c.TryAcquire(t.Context(), "a"); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("after Break: %v", err)
		}
		release(t, l)
	})
}

func TestKeepIdleIsGivenBackByClose(t *testing.T) {
	kept(t, func(t *testing.T, d *recalling, c, other *pawl.Client, last pawl.Token) {
		d.deaf.Store(true)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := other.Inspect(t.Context(), "a")
		if err != nil || len(info.Holders) > 0 {
			t.Errorf("after Close: %+v, %v", info, err)
		}
		if _, err := c.Acquire(t.Context(), "a", pawl.KeepIdle(anHour)); !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// A call of the same client that it does not fit gives it back and asks the store.
func TestKeepIdleThatDoesNotFit(t *testing.T) {
	for name, opt := range map[string]pawl.Option{
		"why": pawl.Why("another"), "longer": pawl.TTL(time.Minute), "shared": pawl.Shared(), "slots": pawl.Slots(2), "lasting": pawl.MinHold(time.Second),
	} {
		for how, call := range map[string]func(*pawl.Client, context.Context, string, ...pawl.Option) (*pawl.Lease, error){
			"acquire": (*pawl.Client).Acquire, "try": (*pawl.Client).TryAcquire,
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				kept(t, func(t *testing.T, d *recalling, c, other *pawl.Client, last pawl.Token) {
					d.deaf.Store(true)
					began := time.Now()
					l, err := call(c, t.Context(), "a", opt)
					if took := time.Since(began); err != nil || took > 0 || l.Token() <= last || d.requests() < 3 {
						t.Fatalf("%v after %v and %d requests", err, took, d.requests())
					}
					release(t, l)
				})
			})
		}
	}
}

// A caller whose context ends does not wait until a store that hangs has what was kept.
func TestKeepIdleGivenBackToASilentStore(t *testing.T) {
	kept(t, func(t *testing.T, d *recalling, c, _ *pawl.Client, _ pawl.Token) {
		stuck := make(chan struct{})
		set(d.tapped, &d.release, func(_ context.Context, ask func() (bool, error)) (bool, error) {
			<-stuck
			return ask()
		})
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			_, err := c.TryAcquire(ctx, "a", pawl.Why("another"))
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
				t.Errorf("TryAcquire with a second = %v after %v", err, took)
			}
			cancel()
		}
		if n := d.requests(); n != 2 {
			t.Errorf("%d requests; want one that acquires, and one that releases", n)
		}
		close(stuck)
	})
}

// A pause in its first request does not make TryAcquire ask for longer.
func TestKeepIdleTryAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		deaf := recall(s)
		deaf.deaf.Store(true)
		l := acquire(t, open(t, deaf, &pawl.Options{TTL: 10 * time.Minute}), "a", pawl.KeepIdle(anHour))
		d := recall(s)
		set(d.tapped, &d.try, func(_ context.Context, ask func() (driver.Answer, error)) (driver.Answer, error) {
			if d.tries.Load() == 1 {
				time.Sleep(time.Minute)
			}
			return ask()
		})
		began := time.Now()
		_, err := open(t, d, nil).TryAcquire(t.Context(), "a")
		if took := time.Since(began) - time.Minute; !errors.Is(err, pawl.ErrHeld) || took > 2*time.Second {
			t.Errorf("TryAcquire = %v %v after a pause of a minute; want ErrHeld within two seconds", err, took)
		}
		release(t, l)
	})
}

func TestKeepIdleIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []pawl.Event
		note := func(e pawl.Event) {
			told = append(told, pawl.Event{Token: e.Token, Err: e.Err, Idle: e.Idle, Held: e.Held})
		}
		s := new(memlock.Store)
		c := open(t, s.Participant(), &pawl.Options{Observer: pawl.Observer{Acquired: note, Released: note, Lost: note}})
		var first pawl.Token
		for i := range 2 {
			l := acquire(t, c, "a", pawl.KeepIdle(time.Second))
			if i == 0 {
				first = l.Token()
			}
			time.Sleep(time.Second / 2)
			release(t, l)
			time.Sleep(time.Second / 2)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []pawl.Event{
			{Token: first}, {Token: first, Idle: true, Held: time.Second / 2},
			{Token: first + 1, Idle: true}, {Token: first + 1, Idle: true, Held: time.Second / 2},
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %+v; want %+v", told, want)
		}
	})
}

// A client asks nothing of its store under its own lock: a hand-over on a store whose leases do not expire asks whether the
// lease is still there, and may hang, while the client's other calls go on.
func TestHandOverOfAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, hang := reserve(&memlock.Store{NoExpiry: true}, 5), make(chan struct{})
		set(d.tapped, &d.renew, func(_ context.Context, ask func() (driver.Renewal, error)) (driver.Renewal, error) {
			<-hang
			return ask()
		})
		c := open(t, d, nil)
		if _, err := c.Acquire(t.Context(), "a", pawl.KeepIdle(time.Second)); !errors.Is(err, errors.ErrUnsupported) {
			t.Fatalf("KeepIdle where leases do not expire: %v; want ErrUnsupported", err)
		}
		l := acquire(t, c, "a")
		heir := make(chan *pawl.Lease)
		go func() { heir <- acquire(t, c, "a") }()
		go l.Release(context.Background())
		synctest.Wait()
		other := acquire(t, c, "b")
		close(hang)
		release(t, other)
		release(t, <-heir)
	})
}

// TestKeepIdleBehindAWaiter: a lease is not kept while another call of the client waits that cannot have its grant.
func TestKeepIdleBehindAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, recall(new(memlock.Store)), nil)
		l := acquire(t, c, "a", pawl.KeepIdle(anHour), pawl.Why("one thing"))
		got := make(chan error, 1)
		go func() {
			_, err := c.Acquire(t.Context(), "a", pawl.Why("another"))
			got <- err
		}()
		synctest.Wait()
		release(t, l)
		synctest.Wait()
		select {
		case err := <-got:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the waiter waits for what nobody uses")
		}
	})
}
