// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestPooled: through PgBouncer in transaction mode waiters look; with an address to listen on they hear. TestSearchPath
// shows that everything goes through it.
func TestPooled(t *testing.T) {
	t.Parallel()
	p := server(t)
	b := servers.StartPgBouncer(t, p, "")
	for what, address := range map[string]string{
		"looks": b.URL() + "&target_session_attrs=read-write",
		"hears": b.URL() + "&listen=" + url.QueryEscape(p.URL("pawl")),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d, other := open(t, address, wide), open(t, address, wide)
			g := take(t, d, what, time.Minute)
			for range 20 {
				d, other = other, d
				next := waits(t, d, what)
				release(t, g)
				last := g.Token()
				if g = next(); g.Token() <= last {
					t.Fatalf("token %d after %d", g.Token(), last)
				}
			}
			if is, _ := d.wire.listener.state(); (is != nil) != (what == "hears") {
				t.Errorf("it listens: %v", is != nil)
			}
			release(t, g)
		})
	}
}

// TestLeastRights: a user who may not create anything, on a schema that somebody else has
// made, can do everything. One without rights is told what is missing.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	p := server(t)
	sql(t, p, "CREATE USER little; CREATE USER nothing; REVOKE CREATE ON DATABASE postgres FROM PUBLIC")
	if _, err := NewStore(t.Context(), p.URL("little"), &Options{Schema: "made", MaxTTL: time.Hour}); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("without a schema: %v", err)
	}
	sql(t, p, Schema("made"))
	sql(t, p, "GRANT USAGE ON SCHEMA made TO little; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA made TO little")
	d := open(t, p.URL("little"), &Options{Schema: "made", MaxTTL: time.Hour})
	take(t, d, "x", time.Minute)
	isHeld(t, d, "x")
	if infos, err := d.List(t.Context(), ""); err != nil || len(infos) != 1 {
		t.Errorf("List = %v, %v", infos, err)
	}
	if err := d.Break(t.Context(), "x", ref(t, d, "x").Lease, nil, "test"); err != nil {
		t.Error(err)
	}
	if g, err := d.Acquire(t.Context(), request("x", time.Minute)); err != nil || g.Release(t.Context()) != nil {
		t.Errorf("Acquire = %v", err)
	}
	if _, err := NewStore(t.Context(), p.URL("nothing"), &Options{Schema: "made", MaxTTL: time.Hour}); err == nil {
		t.Error("a user without rights is let in")
	}
}

// TestTidy: names that were not used for long leave nothing, those in use stay, and a
// waiter whose client is gone is removed.
func TestTidy(t *testing.T) {
	t.Parallel()
	p := server(t)
	d := open(t, p.URL("pawl"), &Options{Schema: "tidy", MaxTTL: time.Hour})
	held := take(t, d, "held", time.Minute)
	for i := range 30 {
		release(t, take(t, d, "old"+string(rune('a'+i)), time.Minute))
	}
	must(t, d.wire.tidyOnce(t.Context(), time.Hour))
	if n := sql(t, p, "SELECT count(*) FROM tidy.lock"); n != "31" {
		t.Errorf("%s names are there; want 31, used just now", n)
	}
	sql(t, p, "INSERT INTO tidy.waiter VALUES ('held', 'gone', 1, 'nobody', 0, '{}', 1, NULL); UPDATE tidy.lock SET waiters = 1, used = 1 WHERE name = 'held'")
	must(t, d.wire.tidyOnce(t.Context(), 0))
	if left := sql(t, p, "SELECT name, waiters FROM tidy.lock"); left != "held|0" {
		t.Errorf("left: %q; want the lease that is held", left)
	}
	release(t, held)
}
