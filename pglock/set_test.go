// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestSetOrder: rows of several names are locked in the order of the names, whatever that of
// the call is, so that two calls do not wait for each other.
func TestSetOrder(t *testing.T) { // alone, as blocked sees what other tests ask, too
	d := open(t, server(t).URL("pawl"), wide)
	for _, name := range []string{"set/a", "set/b"} {
		if err := take(t, d, name, time.Minute).Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tx := blocker(t, "set/a")
	got := make(chan error, 1)
	go func() {
		_, err := d.TryAcquireAll(t.Context(), []*driver.Request{request("set/b", time.Minute), request("set/a", time.Minute)})
		got <- err
	}()
	blocked(t, ".acquire_all(")
	if _, err := server(t).SQL("SELECT FROM pawl.lock WHERE name = 'set/b' FOR UPDATE NOWAIT"); err != nil {
		t.Errorf("the second name is locked before the first: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// TestSetIsWhole: none of several names is granted if one of the leases has ended before, or
// somebody waits for one of the names.
func TestSetIsWhole(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), &Options{Schema: "set"})
	for _, c := range []struct {
		change string
		want   error
	}{
		{`INSERT INTO "set".ended(lease, until) VALUES ('l', "set".us() + 60000000)`, driver.ErrUncertain},
		{`DELETE FROM "set".ended; INSERT INTO "set".waiter(name, lease, place, client, kind, record, since, looks) VALUES ('b', 'w', 1, 'c', 0, '{}', 0, "set".us() + 60000000);
			INSERT INTO "set".lock(name, waiters) VALUES ('b', 1) ON CONFLICT (name) DO UPDATE SET waiters = 1`, driver.ErrHeld},
	} {
		sql(t, server(t), c.change)
		second := request("b", 20*time.Second)
		second.Lease = "l"
		if _, err := d.TryAcquireAll(t.Context(), []*driver.Request{request("a", 20*time.Second), second}); !errors.Is(err, c.want) {
			t.Errorf("TryAcquireAll = %v; want %v", err, c.want)
		}
		if got := sql(t, server(t), `SELECT count(*) FROM "set".lock WHERE lease IS NOT NULL`); got != "0" {
			t.Errorf("%s of the names are held", got)
		}
	}
}
