// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/driver"
)

// TestHandedInVain: a name that was handed to a waiter that has left is given back.
func TestHandedInVain(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	sql(t, server(t), `DELETE FROM pawl.lock WHERE name = 'in vain'; INSERT INTO pawl.lock(name, lease, client, tok, token, until, since, record)
		VALUES ('in vain', 'gone', 'c', 1, 1, pawl.us() + 60000000, 0, '{}')`)
	d.hear(1, fmt.Sprintf("grant gone 1 %d 60000000 1 0 0 in vain", time.Now().UnixMicro()))
	if !eventually(patience, func() bool {
		return sql(t, server(t), "SELECT count(*) FROM pawl.lock WHERE name = 'in vain' AND lease IS NOT NULL") == "0"
	}) {
		t.Error("the name stays held")
	}
}

// TestHandedLate: the message that hands a name over may come when the waiter has found the
// name by a look, and gives it back. Then nobody declines it: only one of two releases finds
// the lease, and the holder would be told that it had lost it.
func TestHandedLate(t *testing.T) {
	config, err := pgconn.ParseConfig("postgres://pawl@127.0.0.1/postgres?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	for kind, what := range map[int]string{0: "exclusive", shared: "shared", 2: "a slot"} {
		synctest.Test(t, func(t *testing.T) {
			var requests atomic.Int32
			config.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
				requests.Add(1)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			s := &store{pool: newPool(config, defaultConns, defaultConnect, nil), waiters: make(map[string]*waiter), grants: make(map[string]*grant)}
			s.ctx, s.cancel = context.WithCancel(t.Context())
			defer s.work.Wait()
			defer s.cancel()
			g := &grant{s: s, name: "late", lease: "mine", kind: kind}
			s.grants[g.lease] = g
			released := make(chan error)
			go func() { released <- g.Release(s.ctx) }()
			synctest.Wait()
			s.hear(1, fmt.Sprintf("grant mine 1 %d 1000000 1 0 0 late", time.Now().UnixMicro()))
			synctest.Wait()
			if n := requests.Load(); n != 1 {
				t.Errorf("%s: %d requests; want only that of the release", what, n)
			}
			s.cancel()
			if err := <-released; err == nil || len(s.grants) != 0 {
				t.Errorf("%s: Release = %v, and %d grants are kept; want an error, and none", what, err, len(s.grants))
			}
		})
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
