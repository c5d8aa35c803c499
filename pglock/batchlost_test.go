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
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/internal/participant"
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
		g   *participant.Lease
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
	var mine []*participant.Lease
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

// TestBatchFails: when the answer for many does not come, the outcome of each is uncertain, and what may have been
// carried out is undone.
func TestBatchFails(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), &Options{Schema: "batch fails"})
	allTogether(d)
	d.listening(t)
	tx := tableLock(t, "batch fails")
	var all sync.WaitGroup
	var left atomic.Int32
	for i := range 8 {
		left.Add(1)
		all.Go(func() {
			defer left.Add(-1)
			if g, err := d.TryAcquire(t.Context(), request(fmt.Sprint(i), 20*time.Second)); !errors.Is(err, driver.ErrUncertain) {
				t.Errorf("%d: TryAcquire = %v, %v", i, g, err)
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
	if err := d.Close(); err != nil { // which waits for that
		t.Error(err)
	}
	if n := sql(t, server(t), `SELECT count(*) FROM "batch fails".lock WHERE lease IS NOT NULL`); n != "0" {
		t.Errorf("%s leases are left", n)
	}
}

// allTogether makes the requests of a client go together.
func allTogether(d *client) { d.wire.takes.Few = 0 }

// TestBatchRefused: what the server refuses because of one request fails for that one alone.
func TestBatchRefused(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t)
	sql(t, p, "CREATE DATABASE euc ENCODING 'EUC_JP' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	d := open(t, strings.Replace(p.URL("pawl"), "/postgres?", "/euc?", 1), wide)
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

// TestBatchAnswer: each request has the row of its own lease. Where there is none, and where the
// server has rolled all of them back, it is sent by itself; a failure is that of all.
func TestBatchAnswer(t *testing.T) {
	all := []string{"a", "b", "c"}
	for _, c := range []struct {
		what string
		rows string // the leases of the rows
		err  error
		got  string // of each request: its row, a failure or nothing
	}{
		{"all", "bca", nil, "abc"},
		{"some", "c", nil, "  c"},
		{"none", "", nil, "   "},
		{"rolled back", "", &failure{refused: true}, "   "},
		{"by a server that is no primary", "", &failure{refused: true, drop: true}, "!!!"},
		{"lost", "", &driver.Failure{Err: driver.ErrUncertain, Maybe: true}, "!!!"},
	} {
		rows := [][][]byte{{[]byte("1"), nil}}
		for _, lease := range c.rows {
			rows = append(rows, [][]byte{[]byte("1"), []byte(string(lease))})
		}
		got := ""
		for _, r := range replies(all, func(lease string) string { return lease }, rows, 7, c.err) {
			switch {
			case r.Alone:
				got += " "
			case r.Err != nil:
				got += "!"
			default:
				got += string(r.Answer.row[1])
			}
		}
		if got != c.got {
			t.Errorf("%s: %q, want %q", c.what, got, c.got)
		}
	}
}
