// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/driver"
)

// blocker is a transaction that has the row of a name, as one of a server that is slow.
func blocker(t testing.TB, name string) pgx.Tx {
	t.Helper()
	c := connect(t, server(t).URL("pawl"))
	tx, err := c.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "SELECT FROM pawl.lock WHERE name = $1 FOR UPDATE", name)
	}
	must(t, err)
	return tx
}

// blocked waits until a request waits for the row.
func blocked(t testing.TB, function string) {
	t.Helper()
	if !eventually(patience, func() bool {
		return sql(t, server(t), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%"+function+"%' AND pid <> pg_backend_pid()") != "0"
	}) {
		t.Fatal("nothing waits for the row")
	}
}

// TestClockAfterTheRow: what a request decides by is the time at which it has the row, not
// that at which it came.
func TestClockAfterTheRow(t *testing.T) {
	p := server(t)
	d := open(t, p.URL("pawl"), wide)
	take(t, d, "clock", time.Minute)
	tx := blocker(t, "clock")
	codes := make(map[string]chan string)
	for function, statement := range map[string]string{ // without the time-out of a request
		".acquire(": "SELECT code FROM pawl.acquire((SELECT timeline FROM pawl.epoch), 'clock', 'next', 'c', 0, '{}', 60000000, 1000000, 0, 0, 0)",
		".renew(":   "SELECT code FROM pawl.renew((SELECT timeline FROM pawl.epoch), 'clock', '" + ref(t, d, "clock").Lease + "', 0, 60000000)",
	} {
		c, code := connect(t, p.URL("pawl")).PgConn(), make(chan string, 1)
		codes[function] = code
		go func() {
			results, err := c.Exec(t.Context(), statement).ReadAll()
			if err != nil {
				code <- err.Error()
				return
			}
			code <- string(results[0].Rows[0][0])
		}()
		blocked(t, function)
	}
	_, err := tx.Exec(t.Context(), "UPDATE pawl.lock SET until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint WHERE name = 'clock'")
	must(t, errors.Join(err, tx.Commit(t.Context())))
	if code := <-codes[".acquire("]; code != "1" {
		t.Errorf("acquire: %s; want the lease, as the one before is over", code)
	}
	if code := <-codes[".renew("]; code != "0" {
		t.Errorf("renew: %s; want that the lease is over", code)
	}
}

// TestLateAttempt: an attempt that was given up while it waited for the row, and then was
// released, is granted nothing when it gets the row.
func TestLateAttempt(t *testing.T) {
	d := open(t, server(t).URL("pawl"), wide)
	release(t, take(t, d, "late", time.Minute))
	// Released first, and then carried out.
	req := request("late", time.Minute)
	if found, err := d.wire.End(t.Context(), driver.Ref{Name: req.Name, Lease: req.Lease}, driver.End{Unsure: true, Doubt: true}); found || err != nil {
		t.Fatalf("End = %v, %v", found, err)
	}
	if g, err := d.TryAcquire(t.Context(), req); !errors.Is(err, driver.ErrUncertain) {
		t.Errorf("TryAcquire = %v, %v; want ErrUncertain", g, err)
	}
	// Released while it waits for the row that the release has.
	req = request("late", time.Minute)
	tx := blocker(t, "late")
	if _, err := tx.Exec(t.Context(), "INSERT INTO pawl.ended(lease, until) VALUES ($1, pawl.us() + 60000000)", req.Lease); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE pawl.lock SET used = used + 1 WHERE name = 'late'"); err != nil {
		t.Fatal(err)
	}
	late := make(chan error, 1)
	go func() { _, err := d.TryAcquire(t.Context(), req); late <- err }()
	blocked(t, ".acquire(")
	must(t, tx.Commit(t.Context()))
	if err := <-late; !errors.Is(err, driver.ErrUncertain) {
		t.Errorf("TryAcquire of a lease that was released meanwhile = %v; want ErrUncertain", err)
	}
	release(t, take(t, d, "late", time.Minute))
}

// TestDowngradeWithoutAnswer: the answer to a downgrade is lost. Whether the store has carried it out or not,
// the end of both leases, in any order, frees the name, and a request that comes after that changes nothing.
func TestDowngradeWithoutAnswer(t *testing.T) {
	t.Parallel()
	a, b := open(t, server(t).URL("pawl"), wide), open(t, server(t).URL("pawl"), wide)
	for _, done := range []bool{false, true} {
		for _, first := range []bool{false, true} {
			name := fmt.Sprint("downgrade ", done, first)
			take(t, a, name, time.Minute)
			old := ref(t, a, name)
			req := request(name, time.Minute)
			req.Shared, req.Instead = true, old.Lease
			granted := func() bool {
				ans, _ := a.wire.Ask(t.Context(), req)
				return ans.Granted
			}
			if done && !granted() {
				t.Error("it is not carried out")
			}
			both := []driver.Ref{old, {Name: name, Lease: req.Lease, Shared: true}}
			if first {
				slices.Reverse(both)
			}
			for _, l := range both {
				if _, err := a.wire.End(t.Context(), l, driver.End{Unsure: true, Doubt: true}); err != nil {
					t.Errorf("End = %v", err)
				}
				if granted() {
					t.Error("it is carried out after an end")
				}
			}
			release(t, take(t, b, name, time.Minute))
		}
	}
}

// TestGivenUp: a caller whose context ends learns whether its request may have been sent. If not, it is never sent.
func TestGivenUp(t *testing.T) {
	d := open(t, server(t).URL("pawl"), wide)
	pool := d.wire.pool
	busy := make([]*conn, cap(pool.idle))
	for i := range busy {
		var err error
		if busy[i], err = pool.get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.wire.Ask(ctx, request("given up", time.Minute)); err == nil || driver.FailureOf(err).Maybe {
		t.Errorf("without a connection: %v; want a failure that has recorded nothing", err)
	}
	for _, c := range busy {
		pool.put(c, true)
	}
	if !eventually(patience, func() bool { return len(pool.idle) == len(busy) }) {
		t.Error("the request keeps a connection")
	}
	if h := holders(t, d, "given up"); len(h) > 0 {
		t.Error("the request was sent after its caller had left")
	}
	take(t, d, "given up", time.Minute)
	tx := blocker(t, "given up")
	defer tx.Rollback(t.Context())
	ctx, cancel = context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := d.wire.Ask(ctx, request("given up", time.Minute))
		failed <- err
	}()
	blocked(t, "acquire(")
	cancel()
	if err := <-failed; !driver.FailureOf(err).Maybe {
		t.Errorf("a request that was sent: %v; want a failure that may have recorded something", err)
	}
}
