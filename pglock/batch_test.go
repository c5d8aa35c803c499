// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// asks returns a request as takeAll and giveAll have it.
func asks(name, lease string) *member {
	return &member{args: []string{name, lease, "{}", "60000000"}, done: make(chan struct{})}
}

// codes returns the answers.
func codes(all []*member) (sum []int) {
	for _, m := range all {
		switch {
		case m.fail != nil:
			sum = append(sum, -100)
		case m.row == nil:
			sum = append(sum, notAtOnce)
		default:
			sum = append(sum, integer(m.row[0]))
		}
	}
	return sum
}

// TestBatchTakesWhatIsFree: of names that are asked for in one call those are granted that
// are free, and nothing that one request alone would not get. No row is waited for.
func TestBatchTakesWhatIsFree(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	names := []string{"free", "again", "held", "shared", "waited", "late", "locked", "new"}
	batch := rand.Text() + "/"
	var all []*member
	for _, name := range names {
		all = append(all, asks(batch+name, rand.Text()))
		if name != "new" {
			g := take(t, d, batch+name, time.Minute)
			if err := g.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	all = append(all, asks(batch+"again", rand.Text()))
	take(t, d, batch+"held", time.Minute)
	reader := request(batch+"shared", time.Minute)
	reader.Shared = true
	if _, err := d.TryAcquire(t.Context(), reader); err != nil {
		t.Fatal(err)
	}
	// The name is free, and somebody waits for it.
	sql(t, server(t), `INSERT INTO pawl.waiter(name, lease, place, client, kind, record, since, looks)
		VALUES ('`+batch+`waited', 'w', 1, 'c', 0, '{}', 0, pawl.us() + 60000000); UPDATE pawl.lock SET waiters = 1 WHERE name = '`+batch+`waited'`)
	sql(t, server(t), "SELECT pawl.release('"+batch+"late', '"+all[5].args[1]+"', 0, false, true)") // leaves a tombstone
	tx := blocker(t, batch+"locked")
	d.takeAll(t.Context(), all)
	got := codes(all)
	if a, b := got[1], got[8]; a+b != 1+notAtOnce {
		t.Errorf("two leases of one name: %d and %d", a, b)
	}
	for i, want := range []int{1, got[1], notAtOnce, notAtOnce, notAtOnce, notAtOnce, notAtOnce, notAtOnce} {
		if got[i] != want {
			t.Errorf("%s: %d, want %d", names[i], got[i], want)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if token, next := long(all[0].row[1]), take(t, d, batch+"new", time.Minute); token <= 0 || next.Token() == 0 {
		t.Errorf("token %d", token)
	}
	if info, err := d.Inspect(t.Context(), batch+"free"); err != nil || len(info.Holders) != 1 || info.Holders[0].Lease != all[0].args[1] {
		t.Errorf("Inspect = %+v, %v", info, err)
	}
}

// TestBatchGivesBack: of leases that are released in one call those end that nobody waits for
// or guards.
func TestBatchGivesBack(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	names := []string{"mine", "anothers", "wanted", "guarded"}
	batch := rand.Text() + "/"
	var all []*member
	var grants []driver.Grant
	for _, name := range names {
		req := request(batch+name, time.Minute)
		g, err := d.TryAcquire(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		all, grants = append(all, asks(req.Name, req.Lease)), append(grants, g)
	}
	all[1].args[1] = "no such lease"
	sql(t, server(t), "UPDATE pawl.lock SET waiters = 1 WHERE name = '"+batch+"wanted'")
	tx := blocker(t, "")
	if _, err := tx.Exec(t.Context(), "SELECT pawl.guard($1, $2, $3)", all[3].args[0], all[3].args[1], int64(grants[3].Token())); err != nil {
		t.Fatal(err)
	}
	d.giveAll(t.Context(), all)
	for i, want := range []int{1, notAtOnce, notAtOnce, notAtOnce} {
		if got := codes(all)[i]; got != want {
			t.Errorf("%s: %d, want %d", names[i], got, want)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	sql(t, server(t), "UPDATE pawl.lock SET waiters = 0 WHERE name = '"+batch+"wanted'")
	for i, g := range grants[1:] {
		if err := g.Release(t.Context()); err != nil {
			t.Errorf("%s: Release = %v", names[i+1], err)
		}
	}
}

// TestBatch: two requests go at once, each by itself; those that come meanwhile go together,
// when one of these is answered or does not come back. None is left, whoever goes.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c batch
		var alone, together, calls atomic.Int64
		stuck := make(chan struct{})
		ask := func(ctx context.Context, wait chan struct{}) *failure {
			_, _, f := c.ask(ctx, nil, func() ([][]byte, driver.Instant, *failure) {
				alone.Add(1)
				<-wait
				return nil, 0, nil
			}, func(_ context.Context, all []*member) {
				calls.Add(1)
				together.Add(int64(len(all)))
				for _, m := range all {
					m.row = [][]byte{nil}
				}
			})
			return f
		}
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { ask(t.Context(), stuck) })
		}
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		all.Go(func() { // the first, which lets the others go
			if f := ask(gone, stuck); f == nil || !errors.Is(f.err, context.Canceled) || f.maybe {
				t.Errorf("%+v", f)
			}
		})
		synctest.Wait()
		for range 150 {
			all.Go(func() { ask(t.Context(), stuck) })
		}
		synctest.Wait()
		if alone.Load() != 2 || together.Load() != 0 {
			t.Fatalf("%d alone, %d together", alone.Load(), together.Load())
		}
		cancel()
		time.Sleep(10 * batchWait) // the two are stuck
		synctest.Wait()
		if alone.Load() != 2 || together.Load() != 150 || calls.Load() != 3 {
			t.Errorf("%d alone, %d together in %d calls", alone.Load(), together.Load(), calls.Load())
		}
		close(stuck)
		all.Wait()
		if c.flying != 0 || len(c.next) != 0 {
			t.Errorf("%d under way, %d wait", c.flying, len(c.next))
		}
	})
}

// TestBatchOfOwnNames: many goroutines with a name of their own each get it, with tokens that
// grow, and some of them in one call.
func TestBatchOfOwnNames(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), &Options{Schema: "own names"})
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			var last uint64
			for range 20 {
				g, err := d.TryAcquire(t.Context(), request(fmt.Sprint("own/", i), 10*time.Second))
				if err != nil {
					t.Error(err)
					return
				}
				if g.Token() <= last {
					t.Errorf("token %d after %d", g.Token(), last)
				}
				last = g.Token()
				if err := g.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
