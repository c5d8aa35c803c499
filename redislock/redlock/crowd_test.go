// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// deaf are nodes that ignore wishes.
type deaf struct{ *master }

func (d deaf) Enqueue(ctx context.Context, p nodewire.Place) (nodewire.State, error) {
	p.Wish = 0
	return d.master.Enqueue(ctx, p)
}

// wan makes each request to and each reply from a master take least to twice that,
// by a source of its own.
func wan(all []*master, least time.Duration, seed uint64) {
	for i, m := range all {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		m.set(func(string) fault {
			return fault{before: least + time.Duration(r.Int64N(int64(least))), after: least + time.Duration(r.Int64N(int64(least)))}
		})
	}
}

// TestCrowdOfReaders: 64 participants wait while a writer has the name, and read it at
// the same time when it is done. Their tokens conflict, their locks do not.
func TestCrowdOfReaders(t *testing.T) {
	for _, n := range []int{3, 5} {
		synctest.Test(t, func(t *testing.T) {
			const readers = 64
			all := masters(n)
			wan(all, 200*time.Microsecond, uint64(n))
			g := try(t, start(t, all, nil))
			var ds []*store
			var got []<-chan *grant
			for range readers {
				d := start(t, all, nil)
				ds = append(ds, d)
				got = append(got, acquire(t.Context(), d, reader()))
			}
			time.Sleep(time.Second)
			for _, d := range ds {
				d.rounds.Store(0)
			}
			began := driver.Now()
			release(t, g)
			tokens := map[uint64]bool{}
			rounds := int64(0)
			for i, got := range got {
				g := <-got
				if g == nil || tokens[g.Token()] {
					t.Fatalf("%v: no lease, or a token that another has", g)
				}
				tokens[g.Token()] = true
				rounds += ds[i].rounds.Load()
			}
			took := driver.Now().Sub(began)
			t.Logf("%d nodes: %v for all, with %.1f rounds of proposals for each", n, took, float64(rounds)/readers)
			if took > time.Second || rounds > 8*readers {
				t.Errorf("%d nodes: it took %v and %d rounds", n, took, rounds)
			}
			if info, err := ds[0].Inspect(t.Context(), name); err != nil || len(info.Holders) != readers {
				t.Errorf("Inspect = %v, %v; want all that share", info, err)
			}
		})
	}
}

// TestAllAtOnce: 64 participants ask for a name in the same instant. One of them has it
// soon, as they propose in the order of the queue, and it goes round by hand-overs.
func TestAllAtOnce(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			const participants, hold = 64, time.Millisecond
			all := masters(5)
			wan(all, 200*time.Microsecond, seed)
			var drivers []*store
			for range participants {
				drivers = append(drivers, start(t, all, nil))
			}
			began := driver.Now()
			var first time.Duration
			var rounds int64
			var wait sync.WaitGroup
			var mu sync.Mutex
			for _, d := range drivers {
				wait.Go(func() {
					req := request()
					req.Renewed = true
					g, err := d.Acquire(t.Context(), req)
					if err != nil {
						t.Errorf("Acquire = %v", err)
						return
					}
					mu.Lock()
					if first == 0 {
						first = driver.Now().Sub(began)
					}
					mu.Unlock()
					time.Sleep(hold)
					release(t, g)
					mu.Lock()
					defer mu.Unlock()
					rounds += d.rounds.Load()
				})
			}
			wait.Wait()
			took := driver.Now().Sub(began)
			t.Logf("%v until the first has it, %v until all had it, %d rounds of proposals", first, took, rounds)
			// Each proposes when it comes, and few propose again.
			if rounds > participants*3/2 {
				t.Errorf("%d rounds of proposals by %d participants", rounds, participants)
			}
		})
	}
}
