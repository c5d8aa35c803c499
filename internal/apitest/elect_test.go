// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// TestElect has five candidates, of which the leader is cut off or killed again
// and again. There are never two, tokens grow, and there is soon a new one.
func TestElect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		const ttl = 3 * time.Second
		var leaders atomic.Int32
		var last, terms atomic.Int64
		var vacant time.Time
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		candidate := func() {
			d := tap(s)
			c := open(t, d, &pawl.Options{TTL: ttl})
			err := c.Elect(ctx, "a", func(ctx context.Context, l *pawl.Lease) error {
				if leaders.Add(1) != 1 {
					t.Error("two leaders at a time")
				}
				if old := last.Swap(int64(l.Token())); int64(l.Token()) <= old {
					t.Errorf("token %d after %d", l.Token(), old)
				}
				if terms.Add(1) > 1 && time.Since(vacant) > ttl+time.Second {
					t.Errorf("nobody has led for %v", time.Since(vacant))
				}
				defer time.AfterFunc(2*time.Second, func() { cutRenewals(d) }).Stop()
				<-ctx.Done()
				set(d, &d.renew, nil)
				vacant = time.Now()
				leaders.Add(-1)
				return ctx.Err()
			})
			wantIs(t, err, context.Canceled)
		}
		for range 5 {
			all.Go(candidate)
		}
		time.Sleep(time.Minute)
		cancel()
		all.Wait()
		if n := terms.Load(); n < 10 {
			t.Errorf("%d terms in a minute", n)
		}
		wantFree(t, open(t, s.Participant(), nil), "a")
	})
}

// The leader is told to stop, but takes its time. It must not stand for election
// again before it has stopped.
func TestElectWaitsForTheLeaderToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		boom := errors.New("boom")
		var running, terms int
		err := c.Elect(context.Background(), "a", func(ctx context.Context, l *pawl.Lease) error {
			if running++; running > 1 {
				t.Error("it leads twice at a time")
			}
			defer func() { running-- }()
			if terms++; terms == 3 {
				return boom
			}
			breaks(t, other, l, "enough")
			<-ctx.Done()
			wantIs(t, context.Cause(ctx), pawl.ErrLost)
			time.Sleep(time.Minute)
			return errors.New("does not count")
		})
		if err != boom || terms != 3 {
			t.Errorf("Elect = %v after %d terms, want the error of the third", err, terms)
		}
		wantFree(t, other, "a")
	})
}

func TestElectEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		nothing := func(context.Context, *pawl.Lease) error { return nil }
		if err := c.Elect(context.Background(), "a", nothing); err != nil {
			t.Errorf("Elect = %v, want nil: it has resigned", err)
		}
		if err := c.Elect(context.Background(), "", nothing); err == nil {
			t.Error("Elect of a bad name has no error")
		}
		err := c.Elect(context.Background(), "a", func(ctx context.Context, l *pawl.Lease) error { return l.Release(ctx) })
		if err != nil {
			t.Errorf("Elect = %v, want nil: the leader has let go itself", err)
		}
		l := acquire(t, other, "a")
		ctx := within(t, time.Minute)
		wantIs(t, c.Elect(ctx, "a", nothing), context.DeadlineExceeded)
		func() {
			defer func() { _ = recover() }()
			_ = c.Elect(context.Background(), "b", func(context.Context, *pawl.Lease) error { panic("boom") })
		}()
		wantFree(t, other, "b")
		done := make(chan error)
		go func() { done <- c.Elect(context.Background(), "a", nothing) }()
		synctest.Wait()
		c.Close()
		if err := <-done; err == nil {
			t.Error("Elect of a closed client has no error")
		}
		release(t, l)
	})
}

// A candidate that waits goes on through an outage of the store.
func TestElectOutlivesOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		away := fails(driver.ErrUnavailable)
		d.try = away
		c := open(t, d, &pawl.Options{TTL: time.Second})
		nothing := func(context.Context, *pawl.Lease) error { return nil }
		wantIs(t, c.Elect(context.Background(), "a", nothing), pawl.ErrUnavailable)

		set(d, &d.try, nil)
		terms := 0
		err := c.Elect(context.Background(), "a", func(ctx context.Context, l *pawl.Lease) error {
			if terms++; terms == 2 {
				return nil
			}
			cutRenewals(d)
			set(d, &d.try, away)
			<-ctx.Done()
			time.AfterFunc(10*time.Minute, func() {
				set(d, &d.try, nil)
				set(d, &d.renew, nil)
			})
			return nil
		})
		if err != nil || terms != 2 {
			t.Errorf("Elect = %v after %d terms, want nil after 2", err, terms)
		}
	})
}

// A candidate whose place in the queue was confirmed also goes on when the store is
// away for longer than a TTL.
func TestElectOutlivesOutagesWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := tap(s)
		c, other := open(t, d, &pawl.Options{TTL: time.Second}), open(t, s.Participant(), nil)
		l := acquire(t, other, "a")
		led := make(chan error)
		go func() {
			led <- c.Elect(context.Background(), "a", func(context.Context, *pawl.Lease) error { return nil })
		}()
		time.Sleep(time.Minute)
		for _, err := range []error{driver.ErrUnavailable, driver.ErrUncertain} {
			set(d, &d.try, fails(err))
			time.Sleep(time.Minute)
			set(d, &d.try, nil)
			time.Sleep(time.Minute)
		}
		select {
		case err := <-led:
			t.Fatalf("Elect = %v in an outage", err)
		default:
		}
		release(t, l)
		if err := <-led; err != nil {
			t.Errorf("Elect = %v", err)
		}
	})
}

// A candidate that loses the lead again and again pauses for longer and longer before
// it stands for election; after a term that went well it is as quick as before.
func TestElectBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		var vacant time.Time
		var pauses []time.Duration
		_ = c.Elect(context.Background(), "a", func(ctx context.Context, l *pawl.Lease) error {
			if !vacant.IsZero() {
				pauses = append(pauses, time.Since(vacant))
			}
			switch len(pauses) {
			case 12:
				time.Sleep(2 * time.Minute)
			case 13:
				return nil
			}
			breaks(t, other, l, "enough")
			<-ctx.Done()
			vacant = time.Now()
			return nil
		})
		t.Logf("pauses between terms: %v", pauses)
		if first, last := pauses[0], pauses[11]; first > 20*time.Millisecond || last < 100*time.Millisecond || last > time.Second {
			t.Errorf("pauses grow from %v to %v; want from some milliseconds to half a second", first, last)
		}
		if again := pauses[12]; again > 20*time.Millisecond {
			t.Errorf("a pause of %v after a long term", again)
		}
	})
}
