// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// The lease ends for its holder with Release, and for everybody else when MinHold is over.
func TestMinHold(t *testing.T) {
	for name, opts := range map[string][]pawl.Option{
		"exclusive": nil, "shared": {pawl.Shared()}, "slot": {pawl.Slots(1)}, "fixed": {pawl.NoRenew()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(memlock.Store)
				var told []pawl.Event
				c := open(t, s.Participant(), &pawl.Options{TTL: 3 * time.Second, Observer: pawl.Observer{
					Released: func(e pawl.Event) { told = append(told, e) },
				}})
				other := open(t, s.Participant(), nil)
				began := time.Now()
				l := acquire(t, c, "a", append(opts, pawl.MinHold(10*time.Second))...)
				work := under(t, l)
				time.Sleep(time.Second)
				release(t, l)
				release(t, l)
				if took := time.Since(began); took != time.Second {
					t.Errorf("two Releases took %v", took-time.Second)
				}
				wantIs(t, l.Err(), pawl.ErrReleased)
				wantIs(t, context.Cause(work), pawl.ErrReleased)
				if _, err := c.TryAcquire(t.Context(), "a"); !errors.Is(err, pawl.ErrHeld) {
					t.Errorf("the same client: %v, want ErrHeld", err)
				}
				if len(told) > 0 {
					t.Errorf("Released is told too early: %+v", told)
				}
				release(t, acquire(t, other, "a"))
				if took := time.Since(began); took != 10*time.Second {
					t.Errorf("another client got the name after %v, want 10s", took)
				}
				synctest.Wait()
				if len(told) != 1 || told[0].Held != 10*time.Second || told[0].Err != nil || told[0].Token != l.Token() {
					t.Errorf("told %+v, want one Released after 10s", told)
				}
			})
		})
	}
}

// It keeps nobody longer than that who takes longer, nor those that wait at home.
func TestMinHoldIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, new(memlock.Store).Participant(), nil)
		began := time.Now()
		wg := line(t, c, 3, func(i int, _ *pawl.Lease) {
			if at, want := time.Since(began), time.Duration(i)*10*time.Second; at != want {
				t.Errorf("waiter %d began after %v, want %v", i, at, want)
			}
			if i == 2 {
				time.Sleep(20 * time.Second)
			}
		}, pawl.MinHold(10*time.Second))
		wg.Wait()
		wantFree(t, c, "a")
	})
}

// limited is a store with a MaxTTL.
type limited struct {
	*tapped
	max atomic.Int64
}

func (d *limited) Describe(context.Context) (*driver.StoreInfo, error) {
	return &driver.StoreInfo{MaxTTL: time.Duration(d.max.Load())}, nil
}

func (d *limited) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	if int64(ttl) > d.max.Load() {
		return driver.Renewal{}, &driver.Failure{Err: driver.ErrDisagree, Lasting: true}
	}
	return d.tapped.Renew(ctx, l, ttl)
}

// Close does not wait. Where leases expire the store keeps the name for MinHold, however short the TTL is.
func TestMinHoldOfAClosedClient(t *testing.T) {
	for _, c := range []struct {
		name         string
		noExpiry     bool
		released     bool // before Close
		ttl, minHold time.Duration
		maxTTL       time.Duration // by the time of Close
		want         time.Duration
		err          string
	}{
		{"released", false, true, 30 * time.Second, 29 * time.Second, time.Minute, 30 * time.Second, ""},
		{"held", false, false, 30 * time.Second, 29 * time.Second, time.Minute, 30 * time.Second, ""},
		{"released, no expiry", true, true, 30 * time.Second, 29 * time.Second, time.Minute, time.Second, ""},
		{"held, no expiry", true, false, 30 * time.Second, 29 * time.Second, time.Minute, time.Second, ""},
		{"released, longer than the TTL", false, true, 6 * time.Second, 20 * time.Second, time.Minute, 20 * time.Second, ""},
		{"held, longer than the TTL", false, false, 6 * time.Second, 20 * time.Second, time.Minute, 20 * time.Second, ""},
		{"beyond MaxTTL", false, true, 6 * time.Second, 20 * time.Second, 10 * time.Second, 11 * time.Second, "MinHold is not over for another 19s"},
		{"MaxTTL is the TTL", false, true, 6 * time.Second, 20 * time.Second, 6 * time.Second, 6 * time.Second, "MinHold is not over for another 19s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &memlock.Store{NoExpiry: c.noExpiry}
				d := &limited{tapped: tap(s)}
				d.max.Store(int64(time.Minute))
				told := 0
				mine := open(t, d, &pawl.Options{TTL: c.ttl, Observer: pawl.Observer{Released: func(pawl.Event) { told++ }}})
				began := time.Now()
				l := acquire(t, mine, "a", pawl.MinHold(c.minHold))
				time.Sleep(time.Second)
				d.max.Store(int64(c.maxTTL))
				if c.released {
					release(t, l)
				}
				err := mine.Close()
				if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) || time.Since(began) > time.Second {
					t.Errorf("Close: %v, after %v", err, time.Since(began))
				}
				ctx := within(t, time.Hour)
				next, err := open(t, s.Participant(), nil).Acquire(ctx, "a")
				if err != nil {
					t.Fatalf("the name is never free: %v", err)
				}
				release(t, next)
				if got := time.Since(began); got != c.want {
					t.Errorf("the name was free after %v, want %v", got, c.want)
				}
				synctest.Wait()
				if wantIs(t, l.Err(), pawl.ErrReleased); told != 1 {
					t.Errorf("Released was told %d times, want once", told)
				}
			})
		})
	}
}

// What was lost is not kept: neither before Release nor after it.
func TestMinHoldOfALostLease(t *testing.T) {
	for _, first := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := new(memlock.Store)
			lost := 0
			c := open(t, s.Participant(), &pawl.Options{Observer: pawl.Observer{Lost: func(pawl.Event) { lost++ }}})
			other := open(t, s.Participant(), nil)
			l := acquire(t, c, "a", pawl.MinHold(time.Hour))
			if first {
				release(t, l)
			}
			breaks(t, other, l, "it is needed")
			synctest.Wait()
			if !first {
				wantIs(t, l.Release(t.Context()), pawl.ErrLost)
			}
			if !isFree(t, other, "a") || lost != 1 {
				t.Errorf("a broken lease is kept; Lost was told %d times", lost)
			}
			release(t, acquire(t, c, "a"))
		})
	}
}

// A store that is away meanwhile ends it, and is told when it is back.
func TestMinHoldInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		c := open(t, d, &pawl.Options{TTL: 10 * time.Second})
		l := acquire(t, c, "a", pawl.MinHold(time.Minute))
		cutRenewals(d)
		set(d, &d.release, func(context.Context, func() (bool, error)) (bool, error) { return false, errNet })
		release(t, l)
		if n := d.releases.Load(); n > 0 {
			t.Fatalf("%d releases at once", n)
		}
		time.Sleep(20 * time.Second)
		if n := d.releases.Load(); n < 2 {
			t.Errorf("%d releases after the loss; they are to be repeated", n)
		}
		set(d, &d.renew, nil)
		set(d, &d.release, nil)
		time.Sleep(time.Second)
		n := d.releases.Load()
		time.Sleep(time.Hour)
		if d.releases.Load() > n || !isFree(t, c, "a") {
			t.Error("the client goes on giving back what it has given back")
		}
	})
}

// Nobody has worked under a lease that a call got but did not return.
func TestMinHoldOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, other := pair(t)
		mine := acquire(t, c, "a")
		_, err := c.TryAcquireAll(t.Context(), []string{"0", "a"}, pawl.MinHold(time.Hour))
		wantIs(t, err, pawl.ErrHeld)
		ctx := within(t, time.Second)
		_, err = c.AcquireAll(ctx, []string{"0", "a"}, pawl.MinHold(time.Hour))
		wantIs(t, err, context.DeadlineExceeded)
		wantFree(t, other, "0")
		release(t, mine)
		g := acquireAll(t, c, []string{"0", "a"}, pawl.MinHold(time.Hour))
		release(t, g)
		for _, name := range g.Names() {
			if isFree(t, other, name) {
				t.Errorf("%q is free", name)
			}
		}
	})
}
