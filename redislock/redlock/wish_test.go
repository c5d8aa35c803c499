// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

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
	var ds []*store
	var granted atomic.Int64
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
				granted.Add(1)
				time.Sleep(hold)
				release(t, g)
			}
		})
	}
	var ns []nodewire.Node
	for _, m := range all {
		if wishes {
			ns = append(ns, m)
		} else {
			ns = append(ns, deaf{m})
		}
	}
	writer, err := newStore(t.Context(), ns, opts)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * hold)
	var rounds int64
	for _, d := range ds {
		rounds += d.rounds.Load()
	}
	grants := granted.Load()
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
		release(t, g)
		time.Sleep(hold)
	}
	stop()
	wait.Wait()
	if rounds > 3*grants {
		t.Errorf("%d rounds for %d readers; want three for each at most", rounds, grants)
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
			limit, end := context.WithTimeout(t.Context(), 10*time.Second)
			g, err := d.Acquire(limit, req)
			end()
			if err != nil {
				t.Errorf("Acquire beside a stream of writers = %v", err)
				break
			}
			mu.Lock()
			waits[req.Shared] += turns - before
			mu.Unlock()
			time.Sleep(hold)
			release(t, g)
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("readers waited for %d writers, writers for %d", waits[true], waits[false])
		if waits[true] > 5*waits[false] { // about twice as many, and ten times if they do not listen
			t.Error("readers wait longer than writers")
		}
		stop()
		wait.Wait()
	})
}

// TestWishOfTheDead: a writer that was cut off keeps readers out until its wish ends,
// and no longer; one that gives up does not keep them out.
func TestWishOfTheDead(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		l := openLinked(t, all, nil)
		defer l.party().Close()
		tryShared(t, d)

		ctx, cancel := context.WithCancel(t.Context())
		got := acquire(ctx, l.store, request())
		time.Sleep(time.Second)
		rounds := d.rounds.Load()
		refused(t, d, reader())
		if n := d.rounds.Load() - rounds; n != 1 {
			t.Errorf("a reader that a wish keeps out asked %d times; want once", n)
		}
		waiting := acquire(t.Context(), d, reader())
		time.Sleep(time.Millisecond)
		cancel()
		began := driver.Now()
		<-got
		(<-waiting).Release(t.Context()) // it was woken
		if took := driver.Now().Sub(began); took > 100*time.Millisecond {
			t.Errorf("a reader came in %v after a writer had given up", took)
		}
		tryShared(t, d).Release(t.Context())

		ctx, cancel = context.WithCancel(t.Context())
		got = acquire(ctx, l.store, request())
		time.Sleep(time.Second)
		refused(t, d, reader())
		l.setCut(true)
		cancel()
		<-got
		began = driver.Now()
		refused(t, d, reader())
		g := <-acquire(t.Context(), d, reader())
		if took := driver.Now().Sub(began); g == nil || took > 3*lookEvery {
			t.Errorf("a reader got %v, %v after a writer had died; want a lease after %v at most", g, took, 3*lookEvery)
		}
	})
}

// TestWishBetweenAttempts: a writer whose attempt fails, as two others ask at the same time, keeps readers out until its next one.
func TestWishBetweenAttempts(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		g := tryShared(t, d)
		ctx, cancel := context.WithCancel(t.Context())
		writer := start(t, all, nil)
		got := acquire(ctx, writer, renewing())
		time.Sleep(time.Second)
		setAll(all, only("propose", fault{before: 5 * time.Millisecond}))
		rounds := writer.rounds.Load()
		release(t, g)
		time.Sleep(2 * time.Millisecond)
		others(all[:1], "one")
		others(all[1:2], "another")
		time.Sleep(4 * time.Millisecond)
		if n := writer.rounds.Load() - rounds; n != 1 {
			t.Fatalf("the writer has asked %d times; want once", n)
		}
		for _, m := range all {
			if m.stateOf(name).Wishes == 0 {
				t.Errorf("%s has no wish", m.addr)
			}
		}
		cancel()
		<-got
	})
}

// TestGiveUpWhileLooking: a writer that gives up at any time leaves no wish, also where
// requests overtake each other on the way.
func TestGiveUpWhileLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		wan(all, 200*time.Microsecond, 1)
		d, writer := start(t, all, nil), start(t, all, nil)
		g := tryShared(t, d)
		var wished atomic.Int64 // when the writer is about to give up
		for i := range 1000 {
			patience := time.Duration(i) * 5 * time.Microsecond
			time.AfterFunc(patience, func() {
				for _, m := range all {
					wished.Add(int64(m.stateOf(name).Wishes))
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if g, err := writer.Acquire(ctx, request()); err == nil {
				t.Fatalf("a writer has token %d beside a reader", g.Token())
			}
			cancel()
			time.Sleep(10 * time.Millisecond)
			for _, m := range all {
				if n := m.stateOf(name).Wishes; n > 0 {
					t.Errorf("after %d µs: %d wishes at %s", 5*i, n, m.addr)
				}
			}
			renew(t, g, 10*time.Second)
		}
		if wished.Load() == 0 {
			t.Error("no wish was ever made; this test cannot fail")
		}
	})
}
