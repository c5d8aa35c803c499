// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/participant"
)

// unwritten stops the process of a server that writes the log behind commits that do not
// wait. crash kills the server and starts it again.
func unwritten(t *testing.T, p *servers.Postgres) (crash func()) {
	t.Helper()
	pid, err := strconv.Atoi(sql(t, p, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"))
	must(t, err)
	end := func() { syscall.Kill(pid, syscall.SIGKILL) }
	t.Cleanup(func() { end() })
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
	return func() {
		syscall.Kill(p.Pid(), syscall.SIGKILL)
		end() // it does not notice by itself
		end = func() {}
		must(t, p.Restart())
	}
}

// TestLostRelease: a crash may lose a release that nobody waited for, alone or of many. Then the lease has the name as
// before, and the client that has released it does not believe that. What was handed over is there, and so is all that
// was released before it.
func TestLostRelease(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t, "-c", "autovacuum=off")
	d, other := open(t, p.URL("pawl"), wide), open(t, p.URL("pawl"), wide)
	hearing(t, p, "heir")
	held, refs := make(map[string]*participant.Lease), make(map[string]driver.Ref)
	for _, name := range []string{"before", "handed", "alone", "many"} {
		held[name] = take(t, d, name, time.Minute)
		refs[name] = ref(t, d, name)
	}
	sql(t, p, "INSERT INTO pawl.waiter(name, lease, place, client, kind, record, since) VALUES ('handed', 'heir', 1, 'heir', 0, '{}', 0); UPDATE pawl.lock SET waiters = 1 WHERE name = 'handed'")
	crash := unwritten(t, p)
	for _, name := range []string{"before", "handed", "alone"} {
		if err := held[name].Release(t.Context()); err != nil {
			t.Fatalf("Release of %s = %v", name, err)
		}
	}
	if got := untilFree(1, func() []storekit.Reply[reply] { return d.wire.releaseAll(t.Context(), []ending{{Ref: refs["many"]}}) }); got[0] != 1 {
		t.Fatalf("a release of many: %v", got)
	}
	crash()

	for name, want := range map[string]string{"before": "", "handed": "heir", "alone": refs["alone"].Lease, "many": refs["many"].Lease} {
		if got := sql(t, p, "SELECT lease FROM pawl.lock WHERE name = '"+name+"'"); got != want {
			t.Errorf("after the crash %s is held by %q; want %q", name, got, want)
		}
	}
	for name, want := range map[string]error{"alone": driver.ErrHeld, "before": nil} {
		var err error
		if !eventually(patience, func() bool {
			_, err = other.TryAcquire(t.Context(), request(name, time.Minute))
			return errors.Is(err, want)
		}) {
			t.Errorf("%s, whose release may be lost: TryAcquire = %v; want %v", name, err, want)
		}
	}
	if _, err := held["alone"].Renew(t.Context(), time.Minute); !errors.Is(err, driver.ErrReleased) {
		t.Errorf("whose release was lost: Renew by whoever has released it = %v; want ErrReleased", err)
	}
}

// TestWhatWaits: of all that changes a lease, only a release that nobody waits for need not be
// on disk, nor with a replica.
func TestWhatWaits(t *testing.T) {
	t.Parallel()
	_, in, c := ownSchema(t, "waits")
	const (
		tl        = "pawl.timeline()"
		downgrade = "SELECT 1 / (code = 1)::int FROM pawl.downgrade(" + tl + ", 'x', 'l', 'r', 'c', '{}', 20000000, 1000000)"
		waiter    = "INSERT INTO pawl.waiter(name, lease, place, client, kind, record, since, looks) VALUES ('x', 'w', 1, 'c', 0, '{}', 0, pawl.us() + 60000000); UPDATE pawl.lock SET waiters = 1; "
	)
	// What is to be there before is in another transaction, or in the same one.
	for _, is := range []struct{ what, do, waits string }{
		{"a release alone", "SELECT pawl.release('x', 'l', 1000000, false, false)", "off"},
		{"a release of many alone", "SELECT pawl.release_many('{x}', '{l}')", "off"},
		{"a release behind a change", "SELECT pawl.release('x', 'l', 1000000, false, false)", "on"},
		{"a release of many behind a change", "SELECT pawl.release_many('{x}', '{l}')", "on"},
		{"a release alone, that somebody waits for", "SELECT pawl.release('x', 'l', 1000000, false, false)", "on"},
		{"a release that finds nothing", "SELECT pawl.release('x', 'other', 1000000, false, false)", "on"},
		{"a release that somebody waits for", waiter + "SELECT pawl.release('x', 'l', 1000000, false, false)", "on"},
		{"a release with a tombstone", "SELECT pawl.release('x', 'l', 1000000, false, true)", "on"},
		{"a waiter that leaves", waiter + "SELECT pawl.release('x', 'w', 1000000, true, false)", "on"},
		{"a break", "SELECT 1 / (code = 1)::int FROM pawl.break('x', 'l', 1000000, '{}')", "on"},
		{"a downgrade", downgrade, "on"},
		{"the release of a reader", downgrade + "; SELECT pawl.release('x', 'r', 1000000, false, false)", "on"},
		{"a renewal", "SELECT 1 / (code > 0)::int FROM pawl.renew(" + tl + ", 'x', 'l', 0, 20000000)", "on"},
		{"a request", "UPDATE pawl.lock SET lease = NULL; SELECT 1 / (code = 1)::int FROM pawl.acquire(" + tl + ", 'x', 'l', 'c', 0, '{}', 20000000, 1000000, 0, 10000000, 0)", "on"},
	} {
		for _, mode := range []Mode{Durable, Synchronous} {
			if mode == Synchronous && strings.Contains(is.do, tl) {
				continue // without a replica nothing is granted or renewed
			}
			before := fmt.Sprint("UPDATE pawl.epoch SET mode = '", mode, `';
				INSERT INTO pawl.lock(name, lease, client, tok, token, until, since, record) VALUES ('x', 'l', 'c', 1, 1, pawl.us() + 60000000, 0, '{}'); `)
			if strings.Contains(is.what, "alone") {
				if strings.Contains(is.what, "waits") {
					before += waiter
				}
				if _, err := c.Exec(t.Context(), in("DELETE FROM pawl.waiter; DELETE FROM pawl.lock; "+before)); err != nil {
					t.Fatal(err)
				}
				before = ""
			}
			tx, err := c.Begin(t.Context())
			must(t, err)
			if before != "" {
				before = "DELETE FROM pawl.waiter; DELETE FROM pawl.lock; " + before
			}
			_, err = tx.Exec(t.Context(), in("SET LOCAL synchronous_commit = on; "+before+is.do))
			var waits string
			if err == nil {
				err = tx.QueryRow(t.Context(), "SELECT current_setting('synchronous_commit')").Scan(&waits)
			}
			must(t, tx.Rollback(t.Context()))
			if err != nil || waits != is.waits {
				t.Errorf("%s, mode %s: synchronous_commit is %q, %v; want %q", is.what, mode, waits, err, is.waits)
			}
		}
	}
}
