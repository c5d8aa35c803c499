// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestHandedInVain: a name that was handed to a waiter that has left is given back.
func TestHandedInVain(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	sql(t, server(t), `INSERT INTO pawl.lock(name, lease, client, tok, token, until, since, record)
		VALUES ('in vain', 'gone', 'c', 1, 1, pawl.us() + 60000000, 0, '{}')`)
	d.hear(1, fmt.Sprintf("grant gone 1 %d 60000000 1 0 0 in vain", time.Now().UnixMicro()))
	if !eventually(patience, func() bool {
		return sql(t, server(t), "SELECT count(*) FROM pawl.lock WHERE name = 'in vain' AND lease IS NOT NULL") == "0"
	}) {
		t.Error("the name stays held")
	}
}

// TestHeardAnew: when there is a new connection to listen on, every waiter looks, and each
// lease is asked for: what was said in between is lost.
func TestHeardAnew(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	g := take(t, d, "anew", time.Minute).(*grant)
	w := &waiter{wake: make(chan struct{}, 1)}
	d.mu.Lock()
	d.waiters["w"] = w
	d.mu.Unlock()
	sql(t, server(t), "UPDATE pawl.lock SET lease = NULL WHERE name = 'anew'")
	d.opened()
	if granted, _, _ := d.heardOf(w); !granted || len(w.wake) != 1 {
		t.Error("the waiter does not look")
	}
	if !eventually(patience, func() bool { return errors.Is(g.over(), driver.ErrLost) }) {
		t.Error("nobody asks for the lease")
	}
}

// TestAnswerLost: a lease of which an earlier request was not answered leaves a tombstone when
// it is released: that request may still be carried out.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), &Options{Schema: "answer lost"})
	a := d.attempt(request("x", 20*time.Second))
	tx := tableLock(t, "answer lost")
	first := make(chan *failure, 1)
	go func() { _, _, f := a.ask(t.Context(), noWait); first <- f }()
	var f *failure
	if !eventually(patience, func() bool {
		sql(t, server(t), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%answer lost%acquire(%' AND pid <> pg_backend_pid()")
		select {
		case f = <-first:
			return true
		default:
			return false
		}
	}) || f == nil || !f.maybe {
		t.Fatalf("the first request: %+v", f)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	g, _, f := a.ask(t.Context(), noWait)
	if f != nil || g == nil {
		t.Fatalf("the second request: %v, %+v", g, f)
	}
	if err := g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := sql(t, server(t), `SELECT count(*) FROM "answer lost".ended WHERE lease = '`+g.lease+"'"); got != "1" {
		t.Errorf("%s tombstones", got)
	}
}
