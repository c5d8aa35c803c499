// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
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
	c, err := pgx.Connect(t.Context(), server(t).URL("pawl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(t.Context()) })
	tx, err := c.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "SELECT FROM pawl.lock WHERE name = $1 FOR UPDATE", name)
	}
	if err != nil {
		t.Fatal(err)
	}
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
	const ttl = 3 * time.Second // less than a request may take, for which the row is locked
	d, other := open(t, server(t).URL("pawl"), wide), open(t, server(t).URL("pawl"), wide)
	g := take(t, d, "clock", ttl)
	tx := blocker(t, "clock")
	acquired, renewed := make(chan error, 1), make(chan error, 1)
	go func() {
		ans, err := other.wire.Ask(t.Context(), request("clock", ttl)) // a client would refuse it, as it took so long
		if err == nil && !ans.Granted {
			err = &driver.HeldError{}
		}
		acquired <- err
	}()
	blocked(t, ".acquire(")
	go func() { _, err := g.Renew(t.Context(), ttl); renewed <- err }()
	blocked(t, ".renew(")
	time.Sleep(g.Since().Add(ttl + 50*time.Millisecond).Sub(driver.Now()))
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-acquired; err != nil {
		t.Errorf("Ask = %v; want the lease, as the one before is over", err)
	}
	if err := <-renewed; !errors.Is(err, driver.ErrLost) {
		t.Errorf("Renew = %v; want ErrLost", err)
	}
}

// TestLateAttempt: an attempt that was given up while it waited for the row, and then was
// released, is granted nothing when it gets the row.
func TestLateAttempt(t *testing.T) {
	d := open(t, server(t).URL("pawl"), wide)
	if err := take(t, d, "late", time.Minute).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
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
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-late; !errors.Is(err, driver.ErrUncertain) {
		t.Errorf("TryAcquire of a lease that was released meanwhile = %v; want ErrUncertain", err)
	}
	if err := take(t, d, "late", time.Minute).Release(t.Context()); err != nil {
		t.Error(err)
	}
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
			if err := take(t, b, name, time.Minute).Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}
