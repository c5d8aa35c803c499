// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// tableLock is a transaction that keeps every request from the names of a schema.
func tableLock(t *testing.T, schema string) pgx.Tx {
	t.Helper()
	c, err := pgx.Connect(t.Context(), server(t).URL("pawl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	tx, err := c.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "LOCK TABLE "+quote(schema)+".lock IN ACCESS EXCLUSIVE MODE")
	}
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// TestBatchUncertain: a caller that goes while its request is under way with others has a grant
// whose release undoes it, and the others have theirs, reckoned from before it was sent.
func TestBatchUncertain(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), &Options{Schema: "batch uncertain"})
	for i := range 6 {
		if err := take(t, d, fmt.Sprint(i), 20*time.Second).Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tx := tableLock(t, "batch uncertain")
	type result struct {
		g   driver.Grant
		err error
	}
	gone, cancel := context.WithCancel(t.Context())
	got := make([]chan result, 6)
	for i := range got {
		ctx := t.Context()
		if i == 4 {
			ctx = gone
		}
		got[i] = make(chan result, 1)
		go func() { g, err := d.TryAcquire(ctx, request(fmt.Sprint(i), 20*time.Second)); got[i] <- result{g, err} }()
		if i < 2 {
			n := fmt.Sprint(i + 1)
			if !eventually(patience, func() bool {
				return sql(t, server(t), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%batch uncertain%acquire(%'") == n
			}) {
				t.Fatal("no request waits")
			}
		}
	}
	if !eventually(patience, func() bool {
		return sql(t, server(t), "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%batch uncertain%acquire_many(%'") == "t"
	}) {
		t.Fatal("no call of several waits")
	}
	cancel()
	r := <-got[4]
	if !errors.Is(r.err, context.Canceled) {
		t.Errorf("TryAcquire = %v", r.err)
	}
	unlocked := driver.Now()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.g != nil {
		if err := r.g.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	var mine []driver.Grant
	for i, c := range got {
		if i == 4 {
			continue
		}
		r := <-c
		if r.err != nil {
			t.Errorf("%d: %v", i, r.err)
			continue
		}
		mine = append(mine, r.g)
		if r.g.Since() > unlocked {
			t.Errorf("%d: the lease counts from %v after the request was sent", i, r.g.Since().Sub(unlocked))
		}
	}
	if !eventually(patience, func() bool {
		return sql(t, server(t), `SELECT count(*) FROM "batch uncertain".lock WHERE lease IS NOT NULL`) == "5"
	}) {
		t.Error("the lease of the caller that has gone is left")
	}
	for _, g := range mine {
		if err := g.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestBatchFails: when the answer for many does not come, each of them has a grant whose
// release undoes what may have been carried out.
func TestBatchFails(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), &Options{Schema: "batch fails"})
	if err := d.ear.open(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	tx := tableLock(t, "batch fails")
	allTogether(d)
	var all sync.WaitGroup
	var left atomic.Int32
	got := make([]driver.Grant, 8)
	for i := range got {
		left.Add(1)
		all.Go(func() {
			defer left.Add(-1)
			var err error
			if got[i], err = d.Acquire(t.Context(), request(fmt.Sprint(i), 20*time.Second)); !errors.Is(err, driver.ErrUncertain) || got[i] == nil {
				t.Errorf("%d: Acquire = %v, %v", i, got[i], err)
			}
		})
	}
	if !eventually(patience, func() bool {
		sql(t, server(t), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%batch fails%acquire%' AND pid <> pg_backend_pid()")
		return left.Load() == 0
	}) {
		t.Error("they wait")
	}
	all.Wait()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, g := range got {
		if g == nil {
			continue
		}
		if err := g.Release(t.Context()); err != nil {
			t.Errorf("%d: Release = %v", i, err)
		}
	}
}

// allTogether makes the requests of a store go together from now on.
func allTogether(d *store) {
	d.takes.mu.Lock()
	defer d.takes.mu.Unlock()
	d.takes.flying = mostFlying
}

// TestBatchCutOff: a call of many goes on until the last of its callers has gone. Then the connection,
// which may be dead, is free for others.
func TestBatchCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batch{flying: mostFlying} // which do not come back
		var all sync.WaitGroup
		over, end := make(chan struct{}), make(chan struct{})
		send := func(ctx context.Context, _ []*member) {
			select {
			case <-ctx.Done():
				close(over)
			case <-end:
			}
		}
		alone := func() ([][]byte, driver.Instant, *failure) {
			t.Error("a request is sent by itself")
			return nil, 0, nil
		}
		first, leaves := context.WithCancel(t.Context())
		last, goes := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{first, first, last} {
			all.Go(func() { c.ask(ctx, nil, alone, send) })
		}
		time.Sleep(2 * batchWait) // they are sent
		leaves()
		synctest.Wait()
		select {
		case <-over:
			t.Error("the call is over although one of its callers waits")
		default:
		}
		goes()
		synctest.Wait()
		select {
		case <-over:
		default:
			t.Error("the call goes on after all of its callers have gone")
		}
		close(end)
		all.Wait()
	})
}

// TestBatchRefused: what the server refuses because of one request fails for that one alone.
func TestBatchRefused(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t)
	sql(t, p, "CREATE DATABASE euc ENCODING 'EUC_JP' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	d := open(t, strings.Replace(p.URL("pawl"), "/postgres?", "/euc?", 1), wide)
	take(t, d, "warm", time.Minute)
	allTogether(d)
	var all sync.WaitGroup
	for _, name := range []string{"one", "two", "three", "锁"} {
		all.Go(func() {
			_, err := d.TryAcquire(t.Context(), request(name, time.Minute))
			if (err != nil) != (name == "锁") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	all.Wait()
}

// TestBatchTurnMissed: a caller that goes when its turn has just come passes the turn on.
func TestBatchTurnMissed(t *testing.T) {
	m := &member{done: make(chan struct{})}
	c := batch{flying: 1, next: []*member{m}}
	c.landed(nil)
	if !m.lone {
		t.Fatal("its turn has not come")
	}
	if !c.leave(m, nil) {
		t.Error("it counts as sent")
	}
	if c.flying != 0 {
		t.Errorf("%d calls under way; want none", c.flying)
	}
}

// TestBatchAnswer: each request has the row of its own lease. Where there is none, and where the
// server has rolled all of them back, it is sent by itself; a failure is that of all.
func TestBatchAnswer(t *testing.T) {
	s := &store{ctx: t.Context()}
	lost := &failure{err: driver.ErrUncertain, maybe: true}
	for _, c := range []struct {
		what string
		rows string // the leases of the rows
		f    *failure
		got  string // of each request: its row, a failure or nothing
	}{
		{"all", "bca", nil, "abc"},
		{"some", "c", nil, "  c"},
		{"none", "", nil, "   "},
		{"rolled back", "", &failure{refused: true}, "   "},
		{"by a server that is no primary", "", &failure{refused: true, drop: true}, "!!!"},
		{"lost", "", lost, "!!!"},
	} {
		all := []*member{asks("1", "a"), asks("2", "b"), asks("3", "c")}
		rows := [][][]byte{{[]byte("1"), nil}}
		for _, lease := range c.rows {
			rows = append(rows, [][]byte{[]byte("1"), []byte(string(lease))})
		}
		s.answer(all, rows, 7, c.f)
		got := ""
		for i, m := range all {
			switch {
			case m.fail != nil && i > 0 && m.fail == all[0].fail:
				t.Errorf("%s: two have one failure, which a caller may change", c.what)
			case m.fail != nil && m.row == nil:
				got += "!"
			case m.row != nil:
				got += string(m.row[1])
			default:
				got += " "
			}
		}
		if got != c.got {
			t.Errorf("%s: %q, want %q", c.what, got, c.got)
		}
	}
}
