// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// reserving is a tapped store with a queue whose grants have n reserved tokens each.
type reserving struct {
	*tapped
	n      uint64
	others bool
	ago    time.Duration // for so long the store has counted the TTL when it grants
}

func reserve(s *memlock.Store, n uint64, others bool) *reserving {
	return &reserving{tapped: tap(s), n: n, others: others}
}

func (d *reserving) Caps() driver.Caps { return remote(d.Store) }

func (d *reserving) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	ans, err := d.tapped.Ask(ctx, req)
	return d.grant(ans), err
}

func (d *reserving) Listen(f func(driver.Event)) {
	d.tapped.Listen(func(e driver.Event) {
		e.Grant = d.grant(e.Grant)
		f(e)
	})
}

func (d *reserving) grant(ans driver.Answer) driver.Answer {
	ans.Token *= d.n + 1
	ans.Since = ans.Since.Add(-d.ago)
	ans.Spare, ans.Waited = d.n, d.others
	return ans
}

// line has n goroutines wait for "a" one behind the other. Each calls f with its lease,
// and releases it when f has returned.
func line(t *testing.T, c *pawl.Client, n int, f func(i int, l *pawl.Lease), opts ...pawl.Option) *sync.WaitGroup {
	t.Helper()
	wg := new(sync.WaitGroup)
	for i := range n {
		wg.Go(func() {
			l := acquire(t, c, "a", opts...)
			f(i, l)
			release(t, l)
		})
		synctest.Wait()
	}
	return wg
}

func TestPassedOnWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := reserve(new(memlock.Store), 100, false)
		c := open(t, d, nil)
		first := acquire(t, c, "a")
		ctx, cancel := first.Context(context.Background())
		defer cancel()
		next := 0
		all := line(t, c, 50, func(i int, l *pawl.Lease) {
			if i != next || l.Token() != first.Token()+pawl.Token(i)+1 || l.ID() != first.ID() || l.State() != pawl.StateHeld {
				t.Errorf("lease of waiter %d is %v, token %d, %v; want that of %d", i, l.ID(), l.Token(), l.State(), next)
			}
			next++
		})
		release(t, first)
		all.Wait()
		wantIs(t, first.Err(), pawl.ErrReleased)
		wantIs(t, context.Cause(ctx), pawl.ErrReleased)
		<-first.Done()
		if tries, releases := d.tries.Load(), d.releases.Load(); tries != 1 || releases != 1 {
			t.Errorf("%d requests for a lease and %d releases; want one of each", tries, releases)
		}
		release(t, acquire(t, c, "a"))
	})
}

// A client passes a grant on for a millisecond, or four if nobody else waits, and while
// there are tokens; then it releases the grant at the store, and other clients have
// their chance.
func TestTurnOfAClientEnds(t *testing.T) {
	for _, test := range []struct {
		tokens uint64
		others bool
		held   time.Duration
		want   int // grants of the client before the other gets its turn
	}{
		{1000, true, 300 * time.Microsecond, 4},
		{1000, false, 300 * time.Microsecond, 14},
		{1000, true, time.Second, 1},
		{2, false, 0, 3},
		{0, false, 0, 1},
	} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(memlock.Store)
				c, other := open(t, reserve(s, test.tokens, test.others), nil), open(t, reserve(s, test.tokens, test.others), nil)
				first := acquire(t, c, "a")
				turns, last := 0, first.Token()
				all := line(t, c, 100, func(_ int, l *pawl.Lease) {
					time.Sleep(test.held)
					turns++
				})
				all.Go(func() {
					l := acquire(t, other, "a")
					if turns+1 != test.want || l.Token() <= last {
						t.Errorf("the other client was let in after %d leases, with token %d; want %d, and a token beyond %d",
							turns+1, l.Token(), test.want, last)
					}
					release(t, l)
				})
				synctest.Wait()
				time.Sleep(test.held)
				release(t, first)
				all.Wait()
				if turns != 100 {
					t.Errorf("%d of 100 were served", turns)
				}
			})
		})
	}
}

// A waiter that gives another reason, or wants a longer TTL than the store has for the
// grant, asks the store.
func TestNotEveryLeaseIsPassedOnWithoutTheStore(t *testing.T) {
	for _, test := range []struct {
		name string
		opts []pawl.Option
		want int64
	}{
		{"alike", nil, 1},
		{"shorter", []pawl.Option{pawl.TTL(10 * time.Second)}, 1},
		{"bounded", []pawl.Option{pawl.MaxHold(time.Second)}, 1},
		{"other purpose", []pawl.Option{pawl.Why("because")}, 2},
		{"longer", []pawl.Option{pawl.TTL(time.Hour)}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := reserve(new(memlock.Store), 100, false)
				c := open(t, d, nil)
				first := acquire(t, c, "a")
				all := line(t, c, 1, func(_ int, l *pawl.Lease) {
					if l.Token() <= first.Token() {
						t.Errorf("token %d after %d", l.Token(), first.Token())
					}
				}, test.opts...)
				release(t, first)
				all.Wait()
				if n := d.tries.Load(); n != test.want {
					t.Errorf("the store was asked %d times, want %d", n, test.want)
				}
			})
		})
	}
}

// A reader behind a writer that takes over the grant is the first in the line then. It
// asks the store: it must not take over a grant that is exclusive there.
func TestReaderInheritsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		c, other := open(t, reserve(s, 100, false), nil), open(t, s.Participant(), nil)
		first := acquire(t, c, "a")
		writer := line(t, c, 1, func(_ int, l *pawl.Lease) {
			if l.ID() != first.ID() {
				t.Error("the writer has not inherited")
			}
		})
		reader := line(t, c, 1, func(_ int, l *pawl.Lease) {
			second, err := other.TryAcquire(context.Background(), "a", pawl.Shared())
			if err != nil {
				t.Fatalf("another client cannot read beside a reader: %v", err)
			}
			release(t, second)
		}, pawl.Shared())
		release(t, first)
		writer.Wait()
		reader.Wait()
	})
}

// passed returns a lease that was passed on while a renewal was under way, and a
// function that lets the store answer that renewal.
func passed(t *testing.T, c *pawl.Client, d *reserving, extend time.Duration, answer error, opts ...pawl.Option) (*pawl.Lease, func()) {
	t.Helper()
	first := acquire(t, c, "a")
	got := make(chan *pawl.Lease)
	go func() { got <- acquire(t, c, "a", opts...) }()
	synctest.Wait()
	let := make(chan struct{})
	set(d.tapped, &d.renew, func(_ context.Context, ask func() (driver.Renewal, error)) (driver.Renewal, error) {
		since, err := ask()
		<-let
		if answer != nil {
			err = answer
		}
		return since, err
	})
	errs := make(chan error)
	go func() { errs <- first.Extend(context.Background(), extend) }()
	synctest.Wait()
	set(d.tapped, &d.renew, nil)
	release(t, first)
	l := <-got
	return l, func() {
		close(let)
		wantIs(t, <-errs, pawl.ErrReleased)
		synctest.Wait()
	}
}

func TestRenewalUnderWayIsForWhoHasTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := reserve(new(memlock.Store), 100, false)
		c := open(t, d, nil)
		l, let := passed(t, c, d, time.Minute, nil)
		defer release(t, l)
		before := l.Deadline()
		time.Sleep(time.Second)
		let()
		if l.Deadline().After(before) {
			t.Errorf("the deadline has moved by %v: the store began the TTL when it was asked", l.Deadline().Sub(before))
		}
		time.Sleep(5 * time.Minute)
		if err := l.Err(); err != nil || d.renewals.Load() < 10 {
			t.Errorf("after %d renewals the lease is %v", d.renewals.Load(), err)
		}
	})
}

// The store has a shorter TTL than the lease now wants: the client must renew at once.
func TestShorterRenewalUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := reserve(new(memlock.Store), 100, false)
		c := open(t, d, &pawl.Options{TTL: time.Minute})
		l, let := passed(t, c, d, time.Second, nil)
		defer release(t, l)
		before := d.renewals.Load()
		let()
		time.Sleep(time.Millisecond)
		if n := d.renewals.Load() - before; n != 1 {
			t.Errorf("%d renewals, want one at once", n)
		}
		time.Sleep(5 * time.Minute)
		if err := l.Err(); err != nil {
			t.Error(err)
		}
	})
}

// The caller of an Extend gives up after it has released the lease. That is no sign of
// trouble for the lease that has the grant by then.
func TestExtendIsGivenUpAfterTheLeaseWasPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, suspect := reserve(new(memlock.Store), 100, false), 0
		c := open(t, d, &pawl.Options{Observer: pawl.Observer{Suspect: func(pawl.Event) { suspect++ }}})
		first := acquire(t, c, "a")
		got := make(chan *pawl.Lease, 1)
		go func() { got <- acquire(t, c, "a") }()
		synctest.Wait()
		hangRenewals(d.tapped)
		ctx, cancel := context.WithCancel(t.Context())
		go first.Extend(ctx, time.Minute)
		synctest.Wait()
		set(d.tapped, &d.renew, nil)
		release(t, first)
		l, before := <-got, d.renewals.Load()
		defer release(t, l)
		cancel()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if suspect > 0 || d.renewals.Load() != before+1 {
			t.Errorf("suspect %d times, and %d renewals; want never, and one at once", suspect, d.renewals.Load()-before)
		}
	})
}

// A lease with NoRenew is not affected by a renewal that fails.
func TestRenewalUnderWayIsNotForWhoHasNone(t *testing.T) {
	for _, answer := range []error{nil, driver.ErrUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			d := reserve(new(memlock.Store), 100, false)
			l, let := passed(t, open(t, d, nil), d, time.Minute, answer, pawl.NoRenew())
			before := l.Deadline()
			let()
			if s := l.State(); s != pawl.StateHeld || !l.Deadline().Equal(before) {
				t.Errorf("the lease is %v, and its deadline moved by %v", s, l.Deadline().Sub(before))
			}
			release(t, l)
		})
	}
}

func TestLossUnderWayIsForWhoHasTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := reserve(new(memlock.Store), 100, false)
		c := open(t, d, nil)
		l, let := passed(t, c, d, time.Minute, &pawl.LostError{Reason: driver.Gone})
		let()
		wantIs(t, l.Err(), pawl.ErrLost)
		wantIs(t, l.Release(context.Background()), pawl.ErrLost)
		release(t, acquire(t, c, "a"))
	})
}

func TestBreakMeetsWhoHasTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := reserve(s, 100, false)
		c, other := open(t, d, nil), open(t, s.Participant(), nil)
		first := acquire(t, c, "a")
		got := make(chan *pawl.Lease)
		go func() { got <- acquire(t, c, "a") }()
		synctest.Wait()
		release(t, first)
		l := <-got
		if err := other.Break(context.Background(), "a", l.ID(), "a test"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		wantIs(t, l.Err(), pawl.ErrLost) // at once
		<-l.Done()
		wantIs(t, l.Release(context.Background()), pawl.ErrLost)
		wantIs(t, first.Err(), pawl.ErrReleased)
		release(t, acquire(t, c, "a"))
	})
}

func TestPassedOnLeaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := reserve(new(memlock.Store), 100, false)
		c := open(t, d, &pawl.Options{TTL: time.Second})
		first := acquire(t, c, "a")
		all := line(t, c, 3, func(_ int, l *pawl.Lease) {
			time.Sleep(10 * time.Second)
			if err := l.Err(); err != nil {
				t.Error(err)
			}
		})
		release(t, first)
		all.Wait()
		if d.renewals.Load() < 60 {
			t.Errorf("%d renewals", d.renewals.Load())
		}
	})
}

// A lease that is past its end is not passed on.
func TestNothingIsPassedOnAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := reserve(new(memlock.Store), 100, false)
		c := open(t, d, nil)
		first := acquire(t, c, "a", pawl.MaxHold(time.Millisecond))
		all := line(t, c, 1, func(int, *pawl.Lease) {})
		stopTimers(c) // so that nothing but the release ends it
		time.Sleep(time.Millisecond)
		wantIs(t, first.Release(context.Background()), pawl.ErrLost)
		all.Wait()
		if n := d.tries.Load(); n != 2 {
			t.Errorf("the store was asked %d times, want 2", n)
		}
	})
}

// A waiter does not take over a grant without the store if less than half of the TTL is
// left.
func TestLittleIsNotPassedOn(t *testing.T) {
	for ago, want := range map[time.Duration]int64{4 * time.Second: 1, 6 * time.Second: 2} {
		synctest.Test(t, func(t *testing.T) {
			d := reserve(new(memlock.Store), 100, false)
			d.ago = ago
			c := open(t, d, &pawl.Options{TTL: 10 * time.Second})
			first := acquire(t, c, "a", pawl.NoRenew())
			all := line(t, c, 1, func(_ int, l *pawl.Lease) {
				if left := time.Until(l.Deadline()); left < 3*time.Second {
					t.Errorf("%v are left", left)
				}
			}, pawl.NoRenew())
			release(t, first)
			all.Wait()
			if n := d.tries.Load(); n != want {
				t.Errorf("the store was asked %d times, want %d", n, want)
			}
		})
	}
}

// A renewal of the lease was due, and waited for others to end, when the grant was
// passed on. The time at which it is due is slightly random.
func TestRenewalThatWasDueIsForWhoHasTheGrant(t *testing.T) {
	for i := range 20 {
		synctest.Test(t, func(t *testing.T) {
			d := reserve(new(memlock.Store), 100, false)
			c := open(t, d, &pawl.Options{TTL: 12 * time.Millisecond, Holder: pawl.Holder{Who: fmt.Sprint(i)}})
			let := holdRenewals(c)
			first := acquire(t, c, "a")
			got := make(chan *pawl.Lease)
			go func() { got <- acquire(t, c, "a") }()
			time.Sleep(3870 * time.Microsecond)
			release(t, first)
			l := <-got
			if l.ID() != first.ID() {
				t.Fatal("it was not passed on")
			}
			let()
			time.Sleep(time.Second)
			if err := l.Err(); err != nil {
				t.Error(err)
			}
			_ = l.Release(context.Background())
		})
	}
}

func TestGrantPassedOnInTheInstantOfCancelIsPutBack(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			d := reserve(new(memlock.Store), 100, false)
			c := open(t, d, nil)
			first := acquire(t, c, "a")
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() {
				if l, err := c.Acquire(ctx, "a"); err == nil {
					release(t, l)
				} else if !errors.Is(err, context.Canceled) {
					t.Errorf("error is %v", err)
				}
			}()
			synctest.Wait()
			all := line(t, c, 2, func(int, *pawl.Lease) {})
			go cancel()
			release(t, first)
			all.Wait()
			synctest.Wait()
			if tries, releases := d.tries.Load(), d.releases.Load(); tries != releases {
				t.Errorf("%d granted, %d given back", tries, releases)
			}
		})
	}
}
