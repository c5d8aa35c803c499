// SPDX-License-Identifier: Apache-2.0

package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
		set(d.tapped, &d.release, func(ctx context.Context, ask func() error) error {
			time.Sleep(time.Second)
			if d.closed.Load() {
				t.Error("the driver was closed before a lease was given back")
			}
			if d.releases.Load() == 1 {
				return driver.ErrUnavailable // to be repeated in the background
			}
			return ask()
		})
		c, err := pawl.New(d, nil)
		if err != nil {
			t.Fatal(err)
		}
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
		if _, err := open(t, s.Driver(), nil).TryAcquire(context.Background(), "a"); err != nil {
			t.Errorf("the lease was not given back: %v", err)
		}
	})
}

func TestCloseGivesBackWhatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memlock.Store{NoExpiry: true} // as on files: only its owner can let go
		c := open(t, s.Driver(), nil)
		l := acquire(t, c, "a", pawl.MaxHold(time.Second))
		<-l.Done()
		other := open(t, s.Driver(), nil)
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
		c := open(t, new(memlock.Store).Driver(), &pawl.Options{TTL: time.Second, Logger: slog.New(slog.NewTextHandler(w, nil))})
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
		c = open(t, new(memlock.Store).Driver(), &pawl.Options{TTL: time.Minute, Observer: pawl.Observer{
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

func TestEveryAcquiredEnds(t *testing.T) {
	var acquired, ended atomic.Int64
	count := func(n *atomic.Int64) func(pawl.Event) { return func(pawl.Event) { n.Add(1) } }
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			c := open(t, new(memlock.Store).Driver(), &pawl.Options{Observer: pawl.Observer{
				Acquired: count(&acquired), Released: count(&ended), Lost: count(&ended),
			}})
			l := acquire(t, c, "a")
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				if l, err := c.Acquire(ctx, "a"); err == nil {
					l.Release(ctx)
				}
			}()
			synctest.Wait()
			go cancel()
			release(t, l)
			synctest.Wait()
		})
	}
	if acquired.Load() != ended.Load() || acquired.Load() == 0 {
		t.Errorf("%d acquired, %d ended", acquired.Load(), ended.Load())
	}
}

func TestDoTellsThatItsLeaseEnded(t *testing.T) {
	c := open(t, new(memlock.Store).Driver(), nil)
	err := c.Do(context.Background(), "a", func(context.Context, *pawl.Lease) error { return c.Close() })
	wantIs(t, err, pawl.ErrReleased)
}

func TestPanicOfADriverDoesNotStopTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		set(d, &d.try, func(context.Context, func() (driver.Grant, error)) (driver.Grant, error) { panic(errNet) })
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

// hangs is a store that records a grant, does not answer, and stays silent from then
// on.
type hangs struct{ driver.Driver }

func (d hangs) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	g, err := d.Driver.TryAcquire(ctx, req)
	if err != nil {
		return nil, err
	}
	return hangingGrant{g}, driver.ErrUncertain
}

type hangingGrant struct{ driver.Grant }

func (g hangingGrant) Release(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func TestCloseDoesNotWaitForAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := pawl.New(hangs{new(memlock.Store).Driver()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.TryAcquire(t.Context(), "deploy")
		wantIs(t, err, pawl.ErrUncertain)
		time.Sleep(10 * time.Millisecond)
		began := time.Now()
		c.Close()
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("Close took %v", d)
		}
	})
}

// far is a store on other hosts that grants, and then hangs.
type far struct{ driver.Driver }

func (d far) Guarantees() driver.Guarantees {
	g := d.Driver.Guarantees()
	g.CrossHost = true
	return g
}

func (d far) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	g, err := d.Driver.TryAcquire(ctx, req)
	if err != nil {
		return nil, err
	}
	return hangingGrant{g}, nil
}

func TestCloseOfManyLeasesOfAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, far{new(memlock.Store).Driver()}, nil)
		for i := range 20 {
			acquire(t, c, fmt.Sprint("name", i))
		}
		began := time.Now()
		if err := c.Close(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close = %v; want the error of the leases that could not be given back", err)
		}
		if d := time.Since(began); d > 7*time.Second {
			t.Errorf("Close took %v", d)
		}
	})
}
