// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var hammerTests = []Test{
	{Name: "holders-never-overlap-under-load", run: hammerTry},
	{Name: "holders-never-overlap-when-waiting", Needs: queuer, run: hammerWait},
	{Name: "holders-never-overlap-when-waiters-give-up", Needs: queuer, run: hammerCancel},
}

const hammers, blows = 6, 25

// detector finds holders that overlap, and tokens that do not grow.
type detector struct {
	e     *env
	names [2]struct {
		inside atomic.Int32
		token  atomic.Uint64
	}
	grants atomic.Int32
}

// hold notes that g holds the i-th name for a moment, and releases it.
func (t *detector) hold(i int, g driver.Grant) {
	n := &t.names[i]
	if n.inside.Add(1) != 1 {
		t.e.Error("two holders at a time")
	}
	if last := n.token.Swap(g.Token()); g.Token() <= last && g.Token() != 0 {
		t.e.Errorf("token %d after %d; want a greater one", g.Token(), last)
	}
	time.Sleep(rand.N(time.Millisecond))
	n.inside.Add(-1)
	t.grants.Add(1)
	if err := g.Release(t.e.ctx); err != nil {
		t.e.Errorf("Release = %v; want nil", err)
	}
}

// hammer calls acquire from many goroutines of several participants.
func (e *env) hammer(acquire blow) *detector {
	t := &detector{e: e}
	var all sync.WaitGroup
	for range 3 {
		d := e.open()
		for range hammers / 3 {
			all.Go(func() {
				for range blows {
					i := rand.IntN(len(t.names))
					g, err := acquire(e, d, e.request(e.name(fmt.Sprint("deploy", i))))
					if err != nil {
						e.Errorf("acquire = %v", err)
						return
					}
					if g != nil {
						t.hold(i, g)
					}
				}
			})
		}
	}
	all.Wait()
	for i := range t.names {
		e.free(e.open(), e.name(fmt.Sprint("deploy", i)))
	}
	return t
}

func hammerTry(e *env) {
	t := e.hammer(hammerOnce)
	if t.grants.Load() == 0 {
		e.Error("nobody ever got the name")
	}
}

func hammerWait(e *env) {
	t := e.hammer(hammerWaiting)
	if n := t.grants.Load(); n != hammers*blows {
		e.Errorf("%d grants; want %d", n, hammers*blows)
	}
}

func hammerCancel(e *env) { e.hammer(hammerGivingUp) }

// blow is one attempt. It may return neither a grant nor an error.
type blow func(*env, driver.Driver, *driver.Request) (driver.Grant, error)

func hammerOnce(e *env, d driver.Driver, req *driver.Request) (driver.Grant, error) {
	g, err := d.TryAcquire(e.ctx, req)
	if errors.Is(err, driver.ErrHeld) {
		time.Sleep(rand.N(time.Millisecond))
		return nil, nil
	}
	return g, err
}

func hammerWaiting(e *env, d driver.Driver, req *driver.Request) (driver.Grant, error) {
	ctx, cancel := context.WithTimeout(e.ctx, e.long())
	defer cancel()
	return d.(driver.Queuer).Acquire(ctx, req)
}

func hammerGivingUp(e *env, d driver.Driver, req *driver.Request) (driver.Grant, error) {
	ctx, cancel := context.WithTimeout(e.ctx, rand.N(4*time.Millisecond))
	defer cancel()
	g, err := d.(driver.Queuer).Acquire(ctx, req)
	if errors.Is(err, context.DeadlineExceeded) {
		if g != nil {
			return nil, g.Release(e.ctx)
		}
		return nil, nil
	}
	return g, err
}
