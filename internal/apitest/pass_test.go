// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
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
	n uint64
}

func reserve(s *memlock.Store, n uint64) *reserving {
	return &reserving{tapped: tap(s), n: n}
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
	ans.Spare = d.n
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
		d := reserve(new(memlock.Store), 100)
		c := open(t, d, nil)
		first := acquire(t, c, "a")
		ctx := under(t, first)
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

// A lease is passed on while a renewal is under way, which the store answers then.
func TestRenewalUnderWayIsForWhoHasTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := reserve(new(memlock.Store), 100)
		c := open(t, d, nil)
		first := acquire(t, c, "a")
		heir := make(chan *pawl.Lease)
		go func() { heir <- acquire(t, c, "a") }()
		synctest.Wait()
		answers(d.tapped, func(int64) time.Duration { return time.Second })
		errs := make(chan error, 1)
		go func() { errs <- first.Extend(context.Background(), time.Minute) }()
		synctest.Wait()
		set(d.tapped, &d.renew, nil)
		release(t, first)
		l := <-heir
		before := l.Deadline()
		wantIs(t, <-errs, pawl.ErrReleased)
		time.Sleep(time.Second)
		synctest.Wait()
		if l.Deadline().After(before) {
			t.Errorf("the deadline has moved by %v: the store began the TTL when it was asked", l.Deadline().Sub(before))
		}
		time.Sleep(5 * time.Minute)
		if err := l.Err(); err != nil || d.renewals.Load() < 10 {
			t.Errorf("after %d renewals the lease is %v", d.renewals.Load(), err)
		}
		release(t, l)
	})
}

func TestBreakMeetsWhoHasTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := reserve(s, 100)
		c, other := open(t, d, nil), open(t, s.Participant(), nil)
		first := acquire(t, c, "a")
		got := make(chan *pawl.Lease)
		go func() { got <- acquire(t, c, "a") }()
		synctest.Wait()
		release(t, first)
		l := <-got
		breaks(t, other, l, "a test")
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
		d := reserve(new(memlock.Store), 100)
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
		d := reserve(new(memlock.Store), 100)
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

// TestReaderBehindAnHeir: when a waiter of the client inherits a lease, the reader behind it asks the store for a place, as
// readers of other clients would overtake it.
func TestReaderBehindAnHeir(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		c, other := open(t, reserve(s, 100), nil), open(t, s.Participant(), nil)
		first := acquire(t, c, "a")
		heir := make(chan *pawl.Lease, 1)
		go func() { heir <- acquire(t, c, "a") }()
		synctest.Wait()
		var reader sync.WaitGroup
		reader.Go(func() { release(t, acquire(t, c, "a", pawl.Shared())) })
		synctest.Wait()
		release(t, first)
		synctest.Wait()
		info, err := other.Inspect(t.Context(), "a")
		if err != nil || len(info.Waiters) != 1 {
			t.Errorf("the store has %v, %v; want the reader in its queue", info, err)
		}
		release(t, <-heir)
		reader.Wait()
	})
}

// TestHeirOfAnExtendThatGivesUp: a call of Extend that gives up says nothing about the store to the lease that has the
// grant by then.
func TestHeirOfAnExtendThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := reserve(new(memlock.Store), 100)
		c := open(t, d, nil)
		hangRenewals(d.tapped)
		l := acquire(t, c, "a")
		heir := make(chan *pawl.Lease, 1)
		go func() { heir <- acquire(t, c, "a") }()
		ctx, cancel := context.WithCancel(t.Context())
		go l.Extend(ctx, pawl.DefaultTTL)
		synctest.Wait()
		release(t, l)
		next := <-heir
		cancel()
		if synctest.Wait(); next.State() != pawl.StateHeld || d.releases.Load() != 0 {
			t.Errorf("the heir is %v, after %d releases at the store", next, d.releases.Load())
		}
		set(d.tapped, &d.renew, nil)
		release(t, next)
	})
}
