// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// paused stands still once, when the store has granted. It does not take votes for a grant.
type paused struct {
	driver.Store
	pause func()
	once  sync.Once
}

func (p *paused) Listen(f func(driver.Event)) {
	p.Store.Listen(func(e driver.Event) {
		if e.Kind == driver.Granted {
			e = driver.Event{Kind: driver.Look, Name: e.Name, Lease: e.Lease}
		}
		f(e)
	})
}

func (p *paused) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	ans, err := p.Store.Ask(ctx, req)
	if ans.Granted {
		p.once.Do(p.pause)
	}
	return ans, err
}

// TestPausedAfterTurn: a process stands still when it was handed a lease, until that is over. The
// lease that it gets then is not ended by what still ends its first attempt at a node that did not
// answer.
func TestPausedAfterTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		wan(all, 200*time.Microsecond, 1)
		x := try(t, start(t, all, nil))
		all[2].set(always(fault{lost: true}))
		d := &paused{Store: start(t, all, nil), pause: func() {
			time.Sleep(15 * time.Second)
			wan(all, 200*time.Microsecond, 2)
			all[1].set(always(fault{refused: true}))
		}}
		locks, err := pawl.New(d, &pawl.Options{TTL: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		got := make(chan *pawl.Lease)
		go func() {
			l, err := locks.Acquire(t.Context(), name)
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		time.Sleep(100 * time.Millisecond)
		release(t, x)
		l := <-got
		if l == nil {
			return
		}
		wan(all, 200*time.Microsecond, 3)
		other := start(t, all, nil)
		for range 60 {
			time.Sleep(50 * time.Millisecond)
			if g, err := other.TryAcquire(t.Context(), request()); err == nil && l.Err() == nil {
				t.Fatalf("two have the name, with the tokens %d and %d", l.Token(), g.Token())
			}
		}
		release(t, l)
	})
}

// TestToldAndGone: the first waiter is told that the name is free, and gives up. The next one is
// told.
func TestToldAndGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		wan(all, 2*time.Millisecond, 1)
		g := try(t, start(t, all, nil))
		ctx, cancel := context.WithCancel(t.Context())
		first := acquire(ctx, start(t, all, nil), request())
		time.Sleep(50 * time.Millisecond)
		next := acquire(t.Context(), start(t, all, nil), request())
		time.Sleep(50 * time.Millisecond)
		for _, m := range all {
			// A reader waits, so that nothing is handed over.
			if _, err := m.Enqueue(t.Context(), nodewire.Place{Name: name, Lease: "reader", Shared: true, For: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		began := driver.Now()
		go g.Release(t.Context())
		time.Sleep(5 * time.Millisecond)
		cancel()
		if g := <-first; g != nil {
			t.Fatal("the first waiter has the name though it gave up")
		}
		n := <-next
		if took := driver.Now().Sub(began); took > 200*time.Millisecond {
			t.Errorf("the next waiter had the name after %v", took)
		}
		release(t, n)
	})
}
