// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// far makes each request take a round trip.
func far(all []*master, trip time.Duration) {
	setAll(all, always(fault{before: trip / 2, after: trip / 2}))
}

// TestFarNodes: leases are granted over round trips that are longer than a two hundredth
// of the TTL. If they become longer than a node may take, the error names the limit and the
// option, and the next attempt knows better.
func TestFarNodes(t *testing.T) {
	for _, c := range []struct{ ttl, trip time.Duration }{
		{time.Second, 4 * time.Millisecond},
		{3 * time.Second, 40 * time.Millisecond},
		{30 * time.Second, 160 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(c.ttl, " over ", c.trip), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := masters(5)
				far(all, c.trip)
				opts := &Options{}
				opts.TTL = c.ttl
				d := start(t, all, opts)
				try := func() error {
					req := request()
					req.TTL = c.ttl
					g, err := d.TryAcquire(t.Context(), req)
					if err == nil {
						g.Release(t.Context())
						time.Sleep(time.Second)
					}
					return err
				}
				for range 20 {
					if err := try(); err != nil {
						t.Fatal(err)
					}
				}
				limit := d.timeout(c.ttl)
				if limit == c.ttl/3 {
					far(all, limit-10*time.Millisecond)
					if err := try(); err != nil {
						t.Errorf("with a trip of %v: %v", limit-10*time.Millisecond, err)
					}
				}
				far(all, limit+10*time.Millisecond)
				err := try()
				if err == nil || !strings.Contains(err.Error(), "node_timeout") || !strings.Contains(err.Error(), limit.String()) {
					t.Errorf("TryAcquire = %v; want an error that names node_timeout and %v", err, limit)
				}
				time.Sleep(5 * limit)
				if err := try(); err != nil && limit < c.ttl/3 {
					t.Errorf("the next attempt: %v", err)
				}
				time.Sleep(5 * limit) // until what that has left is ended
				far(all, 0)
				for range 200 {
					if err := try(); err != nil {
						t.Fatal(err)
					}
				}
				if got := d.timeout(c.ttl); got != min(silence, c.ttl/3) {
					t.Errorf("when the nodes are near again they have %v", got)
				}
			})
		})
	}
}

// TestSilentMinorityCostsOneNodeTimeout: whatever is done with two silent nodes of five takes
// one node timeout at most, the first time, and none from then on.
func TestSilentMinorityCostsOneNodeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		setAll(all[3:], always(fault{lost: true}))
		limit := 150 * time.Millisecond // of a TTL of 30 s
		began := driver.Now()
		did := func(what string, limit time.Duration) {
			t.Helper()
			if took := driver.Now().Sub(began); took > limit {
				t.Errorf("%s took %v; want %v at most", what, took, limit)
			}
			began = driver.Now()
		}
		d, err := newStore(t.Context(), nodes(all), nil)
		did("Open", limit)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.List(t.Context(), ""); err != nil {
			t.Error(err)
		}
		if _, err := d.Inspect(t.Context(), name); err != nil {
			t.Error(err)
		}
		did("List and Inspect", 2*limit)
		g, err := d.TryAcquire(t.Context(), request())
		did("TryAcquire", 0)
		if err != nil {
			t.Fatal(err)
		}
		release(t, g)
		did("Release", 0)
		time.Sleep(2 * endTimeout) // until the requests have ended
		began = driver.Now()
		d.Nodes(t.Context())
		d.Inspect(t.Context(), name)
		did("Nodes and Inspect of nodes known as silent", 0)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		did("Close", limit)
	})
}

// TestHungMajority: TryAcquire returns within the node timeout, with an error that says so. Acquire goes
// on for one TTL, and has the lease soon if the nodes answer again before.
func TestHungMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		locks, err := newOn(t.Context(), all, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		if lease, err := locks.TryAcquire(t.Context(), name); err != nil { // so that it has answered
			t.Fatal(err)
		} else {
			release(t, lease)
		}
		hang := func(f func(string) fault) {
			for _, m := range all[2:] {
				m.set(f)
			}
		}
		time.Sleep(time.Millisecond)
		hang(always(fault{lost: true}))
		began := driver.Now()
		_, err = locks.TryAcquire(t.Context(), name)
		if took := driver.Now().Sub(began); took > silence {
			t.Errorf("TryAcquire took %v; want one node timeout", took)
		}
		if !errors.Is(err, pawl.ErrUncertain) || !strings.Contains(err.Error(), "3 of 5 nodes") {
			t.Errorf("TryAcquire = %v; want ErrUncertain, and that three nodes are silent", err)
		}
		began = driver.Now()
		_, err = locks.Acquire(t.Context(), name)
		var silent *driver.SilentError
		if took := driver.Now().Sub(began); took < pawl.DefaultTTL || took > pawl.DefaultTTL+lookEvery+silence || !errors.As(err, &silent) {
			t.Errorf("Acquire = %v after %v; want that the store was silent for a TTL", err, took)
		}
		time.AfterFunc(5*time.Second, func() { hang(nil) })
		began = driver.Now()
		lease, err := locks.Acquire(t.Context(), name)
		if took := driver.Now().Sub(began); err != nil || took > 5*time.Second+lookEvery+silence {
			t.Fatalf("Acquire = %v after %v; want a lease soon after the nodes answer again", err, took)
		}
		lease.Release(t.Context())
	})
}

// TestHangIsNoRoundTrip: a server that hung while its round trip was measured does not make
// others wait for a quarter of the TTL.
func TestHangIsNoRoundTrip(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{30 * time.Second: maxGrace, 2 * time.Second: 500 * time.Millisecond, 10 * time.Minute: 3 * time.Second} {
		if got := graceAfter(ttl, trips*2*time.Second); got != want {
			t.Errorf("after a round trip of 2s a node has %v of a TTL of %v; want %v", got, ttl, want)
		}
	}
}
