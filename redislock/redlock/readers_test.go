// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// deaf are nodes that make nothing of wishes.
type deaf struct{ *master }

func (d deaf) Want(ctx context.Context, w Wish) (State, error) {
	s, err := d.Read(ctx, []string{w.Name})
	if err != nil {
		return State{}, err
	}
	return s[0], nil
}

// TestStreamOfReaders: a hundred readers, of whom many hold the name at any time, and a
// writer that gets it all the same, within the time for which two of them hold it,
// one after the other. It does not where nodes are deaf to wishes.
func TestStreamOfReaders(t *testing.T) {
	for _, wishes := range []bool{true, false} {
		for n, least := range map[int]time.Duration{3: 200 * time.Microsecond, 5: 5 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) { stream(t, n, least, wishes) })
		}
	}
}

func stream(t *testing.T, n int, least time.Duration, wishes bool) {
	const readers, hold, patience = 100, 200 * time.Millisecond, 10 * time.Second
	all := masters(n)
	wan(all, least, uint64(n))
	opts := &Options{NodeTimeout: time.Second}
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	var ds []*Driver
	for i := range readers {
		d := start(t, all, opts)
		ds = append(ds, d)
		wait.Go(func() {
			time.Sleep(time.Duration(i) * hold / readers)
			for ctx.Err() == nil {
				g, err := d.Acquire(ctx, reader())
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("Acquire of a reader = %v", err)
					}
					return
				}
				time.Sleep(hold)
				if err := g.Release(t.Context()); err != nil {
					t.Errorf("Release of a reader = %v", err)
				}
			}
		})
	}
	var ns []Node
	for _, m := range all {
		if wishes {
			ns = append(ns, m)
		} else {
			ns = append(ns, deaf{m})
		}
	}
	writer, err := NewDriverFor(t.Context(), ns, opts)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * hold)
	var s Stats
	for _, d := range ds {
		s.Grants += d.Stats().Grants
		s.Rounds += d.Stats().Rounds
	}
	for range 3 {
		began := driver.Now()
		wctx, cancel := context.WithTimeout(t.Context(), patience)
		g, err := writer.Acquire(wctx, request())
		cancel()
		took := driver.Now().Sub(began)
		if wishes != (err == nil) {
			t.Errorf("%d nodes that hear wishes (%t): Acquire of a writer = %v after %v", n, wishes, err, took)
		}
		if err != nil {
			break
		}
		t.Logf("%d nodes: the writer had the name after %v", n, took)
		if took > 2*hold {
			t.Errorf("%d nodes: the writer had the name after %v; readers hold it for %v", n, took, hold)
		}
		time.Sleep(10 * time.Millisecond)
		if err := g.Release(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(hold)
	}
	stop()
	wait.Wait()
	t.Logf("%.2f rounds for each reader", float64(s.Rounds)/float64(s.Grants))
	if s.Rounds > 3*s.Grants {
		t.Errorf("%+v; want three rounds for each reader at most", s)
	}
	if err := writer.Close(); err != nil {
		t.Error(err)
	}
}

// TestStreamOfWriters: writers that follow each other leave room for a reader.
func TestStreamOfWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hold = 5 * time.Millisecond
		all := masters(3)
		wan(all, 200*time.Microsecond, 1)
		ctx, stop := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		var mu sync.Mutex
		turns := 0
		for range 8 {
			d := start(t, all, nil)
			wait.Go(func() {
				for {
					g, err := d.Acquire(ctx, request())
					if err != nil {
						return
					}
					mu.Lock()
					turns++
					mu.Unlock()
					time.Sleep(hold)
					g.Release(t.Context())
					time.Sleep(hold)
				}
			})
		}
		d := start(t, all, nil)
		time.Sleep(time.Second)
		waits := make(map[bool]int) // in turns of writers
		for i := range 40 {
			req := request()
			req.Shared = i%2 == 0
			mu.Lock()
			before := turns
			mu.Unlock()
			g, err := d.Acquire(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			waits[req.Shared] += turns - before
			mu.Unlock()
			time.Sleep(hold)
			if err := g.Release(t.Context()); err != nil {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("readers waited for %d writers, writers for %d", waits[true], waits[false])
		if waits[true] > 3*waits[false] {
			t.Error("readers wait longer than writers")
		}
		stop()
		wait.Wait()
	})
}

// TestCrowdOfReaders: 64 participants wait while a writer has the name, and read it at the
// same time when it is done. Their tokens get into each other's way, their locks do not.
func TestCrowdOfReaders(t *testing.T) {
	for _, n := range []int{3, 5} {
		synctest.Test(t, func(t *testing.T) {
			const readers = 64
			all := masters(n)
			wan(all, 200*time.Microsecond, uint64(n))
			g := try(t, start(t, all, nil))
			var ds []*Driver
			var got []<-chan driver.Grant
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
			if err := g.Downgrade(t.Context()); err != nil {
				t.Fatal(err)
			}
			tokens := map[uint64]bool{g.token: true}
			rounds := int64(0)
			for i, got := range got {
				g := <-got
				if g == nil || tokens[g.Token()] {
					t.Fatalf("%v: no lease, or a token that another has", g)
				}
				tokens[g.Token()] = true
				rounds += ds[i].Stats().Rounds
			}
			took := driver.Now().Sub(began)
			t.Logf("%d nodes: %v for all, with %.1f rounds of proposals for each", n, took, float64(rounds)/readers)
			if took > time.Second || rounds > 8*readers {
				t.Errorf("%d nodes: it took %v and %d rounds", n, took, rounds)
			}
			if info, err := ds[0].Inspect(t.Context(), name); err != nil || len(info.Holders) != readers+1 {
				t.Errorf("Inspect = %v, %v; want all that share", info, err)
			}
		})
	}
}
