// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// early is a store whose grants begin with one second of the TTL if the caller renews
// them.
type early struct {
	driver.Store
	asked []bool // whether each request said so
	ids   []string
}

const earlyClaim = time.Second

func (d *early) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	d.asked, d.ids = append(d.asked, req.Renewed), append(d.ids, req.Lease)
	ans, err := d.Store.Ask(ctx, req)
	if err == nil && req.Renewed {
		ans.Since = ans.Since.Add(earlyClaim - driver.Drift(earlyClaim) - req.TTL + driver.Drift(req.TTL))
	}
	return ans, err
}

const earlyTTL = 30 * time.Second

// A grant that begins with less than its TTL is renewed very soon. If the lease is
// released before that, the renewal is not sent. The lease is suspect only after the
// renewal has failed.
func TestEarlyGrantIsRenewedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		began := time.Now()
		answer := make(chan struct{})
		set(d, &d.renew, func(_ context.Context, ask func() (driver.Renewal, error)) (driver.Renewal, error) {
			if d.renewals.Load() == 1 {
				<-answer
			}
			return ask()
		})
		locks := open(t, &early{Store: d}, &pawl.Options{TTL: earlyTTL})
		l := acquire(t, locks, "deploy")
		synctest.Wait()
		if got, want := time.Until(l.Deadline()), earlyClaim-driver.Drift(earlyClaim); got != want {
			t.Errorf("the deadline is in %v, want %v", got, want)
		}
		time.Sleep(5 * time.Millisecond)
		if n := d.renewals.Load(); n != 0 {
			t.Errorf("%d renewals at once", n)
		}
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		if d.renewals.Load() != 1 || l.State() != pawl.StateHeld {
			t.Errorf("%d renewals, %v; want one soon, and a lease that is held", d.renewals.Load(), l.State())
		}
		time.Sleep(earlyClaim/2 - 10*time.Millisecond)
		close(answer)
		synctest.Wait()
		if got, want := time.Until(l.Deadline()), earlyTTL-driver.Drift(earlyTTL); got != want || l.State() != pawl.StateHeld || time.Since(began) != earlyClaim/2 {
			t.Errorf("after the renewal the lease is %v until in %v, want %v", l.State(), got, want)
		}
		release(t, l)
	})
}

// A lease that is not renewed needs the whole TTL.
func TestNoRenewIsGrantedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &early{Store: tap(new(memlock.Store))}
		l := acquire(t, open(t, d, &pawl.Options{TTL: earlyTTL}), "deploy", pawl.NoRenew())
		time.Sleep(earlyTTL / 2)
		if err := l.Err(); err != nil || d.asked[0] {
			t.Errorf("the lease has ended: %v", err)
		}
		release(t, l)

		release(t, acquire(t, open(t, d, nil), "a", pawl.MinHold(time.Second)))
		if d.asked[len(d.asked)-1] {
			t.Error("with MinHold the store may begin with less than the TTL")
		}
	})
}

// A process that is stopped after the grant until nothing of it is left asks again, with another
// id: what ends the first attempt at some servers may come later than the second.
func TestEarlyGrantThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		set(d, &d.try, func(_ context.Context, ask func() (driver.Answer, error)) (driver.Answer, error) {
			g, err := ask()
			if d.tries.Load() == 1 {
				time.Sleep(earlyClaim)
			}
			return g, err
		})
		e := &early{Store: d}
		l := acquire(t, open(t, e, &pawl.Options{TTL: earlyTTL}), "deploy")
		if len(e.asked) != 2 || e.asked[1] {
			t.Errorf("asked for grants that begin early: %v; want one that did, and one that did not", e.asked)
		}
		if e.ids[0] == e.ids[1] || l.ID() != e.ids[1] || d.releases.Load() != 1 {
			t.Errorf("ids %v, the lease has %v, %d releases; want two ids, and that the first grant is given back", e.ids, l.ID(), d.releases.Load())
		}
		if got, want := time.Until(l.Deadline()), earlyTTL-driver.Drift(earlyTTL); got != want {
			t.Errorf("the deadline is in %v, want %v", got, want)
		}
		release(t, l)
	})
}

// The same, but the store does not answer the second request: the grant is given back.
func TestEarlyGrantThatIsOverIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		set(d, &d.try, func(_ context.Context, ask func() (driver.Answer, error)) (driver.Answer, error) {
			if d.tries.Load() > 1 {
				return driver.Answer{}, driver.ErrUnavailable
			}
			g, err := ask()
			time.Sleep(earlyClaim)
			return g, err
		})
		locks := open(t, &early{Store: d}, &pawl.Options{TTL: earlyTTL})
		if l, err := locks.TryAcquire(t.Context(), "deploy"); !errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("TryAcquire = %v, %v; want ErrUnavailable", l, err)
		}
		synctest.Wait()
		if n := d.releases.Load(); n != 1 {
			t.Errorf("%d releases; want one", n)
		}
	})
}
