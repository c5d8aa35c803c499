// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestIdleClosed: a server or a pooler that closes connections that are idle, and a server that was
// restarted, cost no call its result: it was not sent on the old connection.
func TestIdleClosed(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t)
	b := servers.StartPgBouncer(t, p, "client_idle_timeout = 1")
	sql(t, p, "CREATE USER idle SUPERUSER; ALTER USER idle SET idle_session_timeout = '1s'; CREATE USER little SUPERUSER")
	restart := func(*store) {
		if err := p.Restart(); err != nil {
			t.Error(err)
		}
	}
	closes := func(d *store) { // waits until the idle connections have ended
		d.pool.mu.Lock()
		all := d.pool.idle
		d.pool.mu.Unlock()
		if len(all) == 0 {
			t.Error("no connection is idle")
		}
		for _, c := range all {
			if !eventually(patience, func() bool { something, _ := peek(c.Conn()); return something }) {
				t.Error("an idle connection stays open")
			}
		}
	}
	for what, c := range map[string]struct {
		url string
		end func(*store)
	}{
		"pooler": {b.URL(), closes}, "session": {p.URL("idle"), closes}, "restart": {p.URL("little"), restart},
	} {
		d := open(t, c.url, &Options{Schema: "idle", MaxTTL: time.Hour})
		g := take(t, d, what, time.Hour)
		for i := range 4 { // the connection knows the statement from the second round on
			c.end(d)
			if _, err := g.Renew(t.Context(), time.Hour); err != nil {
				t.Errorf("%s, round %d: Renew = %v", what, i, err)
			}
		}
		c.end(d)
		if err := g.Release(t.Context()); err != nil {
			t.Errorf("%s: Release = %v", what, err)
		}
	}
}

// TestIdleRace: the other side ends an idle connection after it was looked at.
func TestIdleRace(t *testing.T) {
	for err, want := range map[*pgconn.PgError]bool{
		{Severity: "FATAL", Code: "57P05"}:                                 true, // idle_session_timeout
		{Severity: "FATAL", Code: "08P01", Message: "client_idle_timeout"}: true,
		{Severity: "FATAL", Code: "57P01"}:                                 false, // perhaps after the commit
		{Severity: "ERROR", Code: "57P05"}:                                 false,
	} {
		if notSent(err) != want {
			t.Errorf("notSent of %+v = %v; want %v", err, !want, want)
		}
		if f := (&store{ctx: t.Context()}).classify(t.Context(), err); err.Severity == "FATAL" && f.maybe == want {
			t.Errorf("%+v may have been carried out: %v, %v", err, f.maybe, errors.Unwrap(f.err))
		}
	}
}
