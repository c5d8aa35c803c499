// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// closable fails every request that comes after Close.
type closable struct {
	*tapped
	closed atomic.Bool
}

func (d *closable) Close() error {
	d.closed.Store(true)
	return d.tapped.Close()
}

func TestCloseWaitsForReleasesUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := &closable{tapped: tap(s)}
		set(d.tapped, &d.release, func(ctx context.Context, ask func() (bool, error)) (bool, error) {
			time.Sleep(time.Second)
			if d.closed.Load() {
				t.Error("the driver was closed before a lease was given back")
			}
			if d.releases.Load() == 1 {
				return false, driver.ErrUnavailable // to be repeated in the background
			}
			return ask()
		})
		c := open(t, d, nil)
		l := acquire(t, c, "a")
		go l.Release(context.Background())
		synctest.Wait()
		var second sync.WaitGroup
		second.Go(func() { c.Close() }) // waits for the first
		c.Close()
		second.Wait()
		if !d.closed.Load() {
			t.Error("the driver is not closed")
		}
		if _, err := open(t, s.Participant(), nil).TryAcquire(context.Background(), "a"); err != nil {
			t.Errorf("the lease was not given back: %v", err)
		}
	})
}

// After a slow grant the client asks who holds the name, to measure how fast the store answers.
func TestCloseWaitsForTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		set(d, &d.try, late(4*time.Second))
		closing := &closable{tapped: d}
		c, err := pawl.New(showOf(closing, func(ctx context.Context, name string) (*driver.Info, error) {
			time.Sleep(time.Second)
			if closing.closed.Load() {
				t.Error("the driver was closed while it was asked")
			}
			return d.Inspect(ctx, name)
		}), &pawl.Options{TTL: 12 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		acquire(t, c, "a")
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseGivesBackWhatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memlock.Store{NoExpiry: true} // as on files: only its owner can let go
		c := open(t, s.Participant(), nil)
		l := acquire(t, c, "a", pawl.MaxHold(time.Second))
		<-l.Done()
		other := open(t, s.Participant(), nil)
		_, err := other.TryAcquire(context.Background(), "a")
		wantIs(t, err, pawl.ErrHeld)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := other.TryAcquire(context.Background(), "a"); err != nil {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestCloseDoesNotHangWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		hangRenewals(d)
		c := open(t, d, &pawl.Options{TTL: 30 * time.Second})
		l := acquire(t, c, "a")
		for range 2 {
			go l.Extend(context.Background(), 30*time.Second)
		}
		time.Sleep(11 * time.Second)
		began := time.Now()
		c.Close()
		if took := time.Since(began); took != 0 {
			t.Errorf("Close took %v", took)
		}
	})
}

// Observers and logs that block must not keep leases from ending.
func TestBlockedLoggerDoesNotKeepLeasesAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		c := open(t, new(memlock.Store).Participant(), &pawl.Options{TTL: time.Second, Logger: slog.New(slog.NewTextHandler(w, nil))})
		var all [3]*pawl.Lease
		for i, name := range []string{"a", "b", "c"} {
			all[i] = acquire(t, c, name, pawl.NoRenew())
		}
		time.Sleep(time.Second)
		for _, l := range all {
			select {
			case <-l.Done():
			default:
				t.Errorf("%s is not told that its time is over", l.Name())
			}
		}
		go io.Copy(io.Discard, r)
		synctest.Wait()
		w.Close()
	})
}

func TestObserverMayCallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *pawl.Client
		var lease atomic.Pointer[pawl.Lease]
		var once sync.Once
		extended, closed := make(chan error, 1), make(chan error, 1)
		ctx := context.Background()
		c = open(t, new(memlock.Store).Participant(), &pawl.Options{TTL: time.Minute, Observer: pawl.Observer{
			Renewed: func(pawl.Event) {
				once.Do(func() { extended <- lease.Load().Extend(ctx, time.Minute) })
			},
			Lost: func(pawl.Event) {
				lease.Load().Release(ctx)
				closed <- c.Close()
			},
		}})
		lease.Store(acquire(t, c, "a", pawl.MaxHold(50*time.Second)))
		for _, c := range []chan error{extended, closed} {
			if err := <-c; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestDoTellsThatItsLeaseEnded(t *testing.T) {
	c := open(t, new(memlock.Store).Participant(), nil)
	err := c.Do(context.Background(), "a", func(context.Context, *pawl.Lease) error { return c.Close() })
	wantIs(t, err, pawl.ErrReleased)
}

func TestPanicOfADriverDoesNotStopTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		set(d, &d.try, func(context.Context, func() (driver.Answer, error)) (driver.Answer, error) { panic(errNet) })
		c := open(t, d, nil)
		func() {
			defer func() {
				if err, ok := recover().(error); !ok || !errors.Is(err, errNet) {
					t.Errorf("panic with %v", err)
				}
			}()
			c.Acquire(context.Background(), "a")
		}()
		set(d, &d.try, nil)
		release(t, acquire(t, c, "a"))
	})
}

// remote returns the Caps of a store on other hosts.
func remote(s driver.Store) driver.Caps {
	c := s.Caps()
	c.CrossHost = true
	return c
}

func TestCloseDoesNotWaitForAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		set(d, &d.try, answerLost)
		hangReleases(d)
		c := open(t, d, nil)
		_, err := c.TryAcquire(t.Context(), "deploy")
		wantIs(t, err, pawl.ErrUncertain)
		time.Sleep(10 * time.Millisecond)
		began := time.Now()
		c.Close()
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("Close took %v", d)
		}
	})
}

// TestCloseOfManyLeasesOfAStoreThatHangs: however many there are, all requests have the same
// time. None begins later, and the error has a bounded length.
func TestCloseOfManyLeasesOfAStoreThatHangs(t *testing.T) {
	for _, n := range []int{20, 2000} {
		synctest.Test(t, func(t *testing.T) {
			var told atomic.Int64
			opts := &pawl.Options{Observer: pawl.Observer{Released: func(e pawl.Event) {
				if e.Err != nil {
					told.Add(1)
				}
			}}}
			d := tap(new(memlock.Store))
			hangReleases(d)
			c := open(t, d, opts)
			for i := range n {
				acquire(t, c, fmt.Sprint("name", i))
			}
			began := time.Now()
			err := c.Close()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Close = %v; want the error of the leases that could not be given back", err)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if took := time.Since(began); took != 4*time.Second {
				t.Errorf("Close of %d leases took %v", n, took)
			}
			synctest.Wait()
			if got := told.Load(); got != int64(n) {
				t.Errorf("%d of %d leases were told to have ended", got, n)
			}
			if got := d.releases.Load(); got != int64(n) {
				t.Errorf("%d requests for %d leases; want one for each, in time", got, n)
			}
		})
	}
}

// left returns how many names that begin with prefix somebody holds.
func left(t *testing.T, s *memlock.Store, prefix string) int {
	t.Helper()
	infos, err := s.Participant().List(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	return len(infos)
}

func TestCloseOfAStoreWithADeadPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := &parts{Store: s.Participant()}
		c := open(t, d, nil)
		const n = 1000
		for i := range n {
			acquire(t, c, fmt.Sprint("dead", i))
			acquire(t, c, fmt.Sprint("well/", i))
		}
		d.hangs.Store(true)
		began := time.Now()
		if err := c.Close(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close = %v; want the error of the part that does not answer", err)
		}
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("Close took %v", took)
		}
		if ok, dead := left(t, s, "well/"), left(t, s, "dead"); ok != 0 || dead != n {
			t.Errorf("%d leases of the part that answers are not given back, and %d of the other; want 0 and %d", ok, dead, n)
		}
	})
}

// A call that hangs takes none of the time in which leases are given back.
func TestCloseBehindACallThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := tap(s)
		c := open(t, d, nil)
		l := acquire(t, c, "a")
		set(d, &d.try, func(context.Context, func() (driver.Answer, error)) (driver.Answer, error) {
			time.Sleep(5 * time.Second)
			return driver.Answer{}, driver.ErrUnavailable
		})
		go c.TryAcquire(context.Background(), "b")
		synctest.Wait()
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("Close took %v; want that it waits for the call", took)
		}
		wantIs(t, l.Err(), pawl.ErrReleased)
		if n := left(t, s, ""); n != 0 {
			t.Errorf("%d leases are not given back", n)
		}
	})
}

// A call that waits under a lease is told that the client is closed, not that the lease has ended.
func TestCloseTellsWaitersBeforeTheirLeasesEnd(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			s := new(memlock.Store)
			held := acquire(t, open(t, s.Participant(), nil), "b")
			c := open(t, s.Participant(), nil)
			ctx, cancel := acquire(t, c, "a").Context(context.Background())
			defer cancel()
			go c.Acquire(context.Background(), "b") // which asks the store
			synctest.Wait()
			var err error
			var call sync.WaitGroup
			call.Go(func() { _, err = c.Acquire(ctx, "b") })
			synctest.Wait()
			c.Close()
			call.Wait()
			wantIs(t, err, pawl.ErrClosed)
			release(t, held)
		})
	}
}

// A call that was granted its lease in the instant of Close has it given back too.
func TestCloseGivesBackWhatCallsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		d := tap(s)
		set(d, &d.try, late(time.Second))
		c := open(t, d, nil)
		go c.TryAcquire(context.Background(), "a")
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if n := left(t, s, ""); n != 0 {
			t.Errorf("%d leases are not given back", n)
		}
	})
}

// stalling is a context that never ends. Its Err blocks until the test lets it return.
type stalling struct {
	context.Context
	stall func()
}

func (c stalling) Done() <-chan struct{} { return make(chan struct{}) }
func (c stalling) Err() error            { c.stall(); return nil }

// TestCloseGivesBackWhatALateCallReturns: a call gets its answer just before Close, and returns after Close has stopped
// waiting for calls. Its lease is given back too.
func TestCloseGivesBackWhatALateCallReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		c := open(t, s.Participant(), nil)
		got := make(chan *pawl.Lease, 1)
		go func() {
			l, _ := c.TryAcquire(stalling{t.Context(), func() {
				if n := left(t, s, "a"); n > 0 { // it was granted
					time.Sleep(time.Second)
				}
			}}, "a")
			got <- l
		}()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if l := <-got; l == nil || left(t, s, "") > 0 {
			t.Errorf("the call has returned %v, and the store has %d leases; want a lease that is given back", l, left(t, s, ""))
		}
	})
}

// TestCloseEndsAllHolds: Close gives back a lease that is held three times.
func TestCloseEndsAllHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		ctx, cancel := acquire(t, c, "a").Context(t.Context())
		defer cancel()
		for range 2 {
			if _, err := c.Acquire(ctx, "a", pawl.Reentrant()); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := other.TryAcquire(t.Context(), "a"); err != nil {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestReleasedLeaseIsForgotten: a client that goes on for years keeps nothing of the leases that it gave back.
func TestReleasedLeaseIsForgotten(t *testing.T) {
	c := open(t, new(memlock.Store).Participant(), nil)
	gone := make(chan struct{})
	func() {
		l := acquire(t, c, "a")
		runtime.AddCleanup(l, func(gone chan struct{}) { close(gone) }, gone)
		release(t, l)
	}()
	for end := time.Now().Add(20 * time.Second); ; {
		runtime.GC()
		select {
		case <-gone:
			return
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Fatal("the client still has the lease")
		}
	}
}
