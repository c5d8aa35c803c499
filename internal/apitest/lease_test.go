// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"fmt"
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

var errNet = errors.New("the network is down")

// cutRenewals makes every renewal fail as if the network were down.
func cutRenewals(d *tapped) {
	set(d, &d.renew, func(context.Context, func() (driver.Renewal, error)) (driver.Renewal, error) {
		return driver.Renewal{}, errors.Join(driver.ErrUnavailable, errNet)
	})
}

func TestLeaseIsRenewedForAsLongAsItIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		l := acquire(t, open(t, d, &pawl.Options{TTL: 3 * time.Second}), "a")
		time.Sleep(time.Hour)
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		if n := d.renewals.Load(); n < 3600 || n > 4200 {
			t.Errorf("%d renewals in an hour, want about one a second", n)
		}
		release(t, l)
		wantIs(t, l.Err(), pawl.ErrReleased)
		if got, want := fmt.Sprint(l), fmt.Sprintf(`lease of "a", token %d, released`, l.Token()); got != want {
			t.Errorf("the lease prints %s; want %s", got, want)
		}
	})
}

func TestLeaseEndsAtItsDeadlineBeforeTheStoreLetsAnotherIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := tap(s)
		cutRenewals(d)
		const ttl = 10 * time.Second
		l := acquire(t, open(t, d, &pawl.Options{TTL: ttl}), "a")
		ctx := under(t, l)
		began := time.Now()
		next := make(chan time.Duration)
		other := open(t, s.Participant(), nil)
		go func() {
			l2 := acquire(t, other, "a")
			next <- time.Since(began)
			release(t, l2)
		}()
		<-ctx.Done()
		if got, want := time.Since(began), ttl-driver.Drift(ttl); got != want {
			t.Errorf("the lease ended after %v, want %v", got, want)
		}
		wantIs(t, context.Cause(ctx), pawl.ErrLost)
		var lost *pawl.LostError
		if err := l.Err(); !errors.As(err, &lost) || !errors.Is(lost.Err, errNet) {
			t.Errorf("%v does not say why it could not be renewed", err)
		}
		if got := <-next; got < ttl {
			t.Errorf("the next holder came after %v, before the TTL of %v", got, ttl)
		}
	})
}

// The client's own timer ends the lease at its deadline: a renewal that hangs does not
// keep it alive, not even one that breaks the contract and hangs beyond its context.
func TestLeaseEndsAtItsDeadlineWhileARenewalHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		hang := make(chan struct{})
		d.renew = func(ctx context.Context, ask func() (driver.Renewal, error)) (driver.Renewal, error) {
			<-hang
			return ask()
		}
		l := acquire(t, open(t, d, &pawl.Options{TTL: time.Second}), "a")
		began := time.Now()
		<-l.Done()
		if got, want := time.Since(began), time.Second-driver.Drift(time.Second); got != want {
			t.Errorf("the lease ended after %v, want %v", got, want)
		}
		close(hang)
		synctest.Wait()
		if l.State() != pawl.StateLost {
			t.Errorf("the late renewal made the lost lease %v", l.State())
		}
	})
}

func TestDeadlineCountsFromTheSendingOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		d.try = late(4 * time.Second)
		const ttl = 10 * time.Second
		c := open(t, d, &pawl.Options{TTL: ttl})
		sent := time.Now()
		l := acquire(t, c, "a", pawl.NoRenew())
		if got, want := l.Deadline(), sent.Add(ttl-driver.Drift(ttl)); !got.Equal(want) {
			t.Errorf("deadline %v after sending, want %v", got.Sub(sent), want.Sub(sent))
		}
	})
}

func TestSuspectLeaseIsHeldAgainAfterARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		cutRenewals(d)
		var mu sync.Mutex
		var events []string
		note := func(what string) func(pawl.Event) {
			return func(pawl.Event) {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, what)
			}
		}
		c := open(t, d, &pawl.Options{TTL: 9 * time.Second, Observer: pawl.Observer{
			Acquired: note("acquired"), Suspect: note("suspect"), Lost: note("lost"), Released: note("released"),
		}})
		l := acquire(t, c, "a")
		time.Sleep(5 * time.Second)
		if l.State() != pawl.StateSuspect || l.Err() != nil {
			t.Fatalf("after failed renewals the lease is %v (%v), want suspect", l.State(), l.Err())
		}
		set(d, &d.renew, nil)
		time.Sleep(2 * time.Second)
		if l.State() != pawl.StateHeld {
			t.Fatalf("after a renewal the lease is %v, want held", l.State())
		}
		time.Sleep(time.Minute)
		release(t, l)
		synctest.Wait() // events are told soon after
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"acquired", "suspect", "released"}; !slices.Equal(events, want) {
			t.Errorf("events %v, want %v", events, want)
		}
	})
}

func TestReleaseIsIdempotentAndWorksWithACancelledContext(t *testing.T) {
	s := new(memlock.Store)
	c := open(t, tap(s), nil)
	l := acquire(t, c, "a")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 2 {
		wantIs(t, l.Release(ctx), nil)
	}
	l2, err := c.TryAcquire(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	release(t, l) // a third time: must not touch l2
	if err := l2.Extend(context.Background(), time.Minute); err != nil {
		t.Errorf("a late release of the old lease ended the new one: %v", err)
	}
}

func TestReleaseIsRepeatedInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := tap(s)
		var failing atomic.Bool
		failing.Store(true)
		d.release = func(ctx context.Context, ask func() (bool, error)) (bool, error) {
			if failing.Load() {
				return false, errors.Join(driver.ErrUnavailable, errNet)
			}
			return ask()
		}
		l := acquire(t, open(t, d, &pawl.Options{TTL: time.Hour}), "a")
		wantIs(t, l.Release(context.Background()), errNet)
		other := open(t, s.Participant(), nil)
		if _, err := other.TryAcquire(context.Background(), "a"); !errors.Is(err, pawl.ErrHeld) {
			t.Fatalf("the store has not been told yet, but: %v", err)
		}
		failing.Store(false)
		time.Sleep(maxPause)
		if _, err := other.TryAcquire(context.Background(), "a"); err != nil {
			t.Errorf("the release was not repeated: %v", err)
		}
	})
}

// maxPause is a little more than the longest pause between two repetitions.
const maxPause = 1500 * time.Millisecond

// Timers stand still while the machine sleeps: every method of the lease must still
// report its end.
func TestEveryLookTellsThatTheTimeIsOver(t *testing.T) {
	for name, over := range map[string]func(*pawl.Lease, context.Context) bool{
		"Lease.Err":    func(l *pawl.Lease, _ context.Context) bool { return errors.Is(l.Err(), pawl.ErrLost) },
		"Lease.State":  func(l *pawl.Lease, _ context.Context) bool { return l.State() == pawl.StateLost },
		"Context.Err":  func(_ *pawl.Lease, ctx context.Context) bool { return ctx.Err() != nil },
		"Lease.Extend": func(l *pawl.Lease, _ context.Context) bool { return l.Extend(context.Background(), time.Hour) != nil },
		"Lease.Release": func(l *pawl.Lease, _ context.Context) bool {
			return errors.Is(l.Release(context.Background()), pawl.ErrLost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := open(t, new(memlock.Store).Participant(), &pawl.Options{TTL: time.Second})
				l := acquire(t, c, "a")
				ctx := under(t, l)
				stopTimers(c)
				time.Sleep(time.Second - driver.Drift(time.Second))
				if !over(l, ctx) {
					t.Error("not told")
				}
			})
		})
	}
}

// The contexts of a lease end after the lease. In between their Err already returns the
// loss.
func TestContextKnowsWhenDoneIsClosed(t *testing.T) {
	c := open(t, new(memlock.Store).Participant(), nil)
	l := acquire(t, c, "a")
	ctx := under(t, l)
	goOn := holdScheduler(c)
	released := make(chan error)
	go func() { released <- l.Release(context.Background()) }()
	<-l.Done()
	if ctx.Err() == nil || !errors.Is(context.Cause(ctx), pawl.ErrReleased) {
		t.Errorf("the lease has ended, but its context says %v (%v)", ctx.Err(), context.Cause(ctx))
	}
	goOn()
	if err := <-released; err != nil {
		t.Error(err)
	}
}

func TestContextEndsWithTheLease(t *testing.T) {
	l := acquire(t, open(t, new(memlock.Store).Participant(), nil), "a")
	type key struct{}
	ctx, cancel := l.Context(context.WithValue(context.Background(), key{}, 1))
	defer cancel()
	child, cancelChild := context.WithTimeout(ctx, time.Hour)
	defer cancelChild()
	if ctx.Err() != nil || ctx.Value(key{}) != 1 {
		t.Fatal("a fresh context must be live and keep its parent's values")
	}
	release(t, l)
	<-child.Done()
	wantIs(t, context.Cause(child), pawl.ErrReleased)
	late := under(t, l)
	wantIs(t, context.Cause(late), pawl.ErrReleased)
	wantIs(t, late.Err(), context.Canceled)
}
