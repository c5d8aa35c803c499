// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestIdleClosed: a server or a pooler that closes connections that are idle, and a server that was
// restarted, cost no call its result: it was not sent on the old connection. They close no other:
// one that is being made on a busy machine is idle for long, too.
func TestIdleClosed(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t)
	b := servers.StartPgBouncer(t, p, "admin_users = pawl")
	sql(t, p, "CREATE USER little SUPERUSER")
	console := strings.Replace(b.URL(), "/postgres?", "/pgbouncer?", 1)
	for what, c := range map[string]struct {
		url string
		end func(idle []*conn)
	}{
		"pooler": {b.URL(), func(idle []*conn) {
			tell(t, connect(t, console).PgConn(), "SET client_idle_timeout = 1")
			awaitEnd(t, idle)
			tell(t, connect(t, console).PgConn(), "SET client_idle_timeout = 0")
		}},
		"session": {p.URL("pawl"), func(idle []*conn) {
			for _, c := range idle {
				tell(t, c.PgConn, "SET idle_session_timeout = '1s'")
			}
			awaitEnd(t, idle)
		}},
		"restart": {p.URL("little"), func([]*conn) {
			if err := p.Restart(); err != nil {
				t.Error(err)
			}
		}},
	} {
		d := open(t, c.url, &Options{Schema: "idle", MaxTTL: time.Hour})
		g := take(t, d, what, time.Hour)
		end := func() {
			idle := []*conn{<-d.wire.pool.idle} // waits, as the client may confirm its leases
			for len(d.wire.pool.idle) > 0 {
				idle = append(idle, <-d.wire.pool.idle)
			}
			for _, c := range idle {
				d.wire.pool.idle <- c
			}
			c.end(idle)
		}
		for i := range 4 { // the connection knows the statement from the second round on
			end()
			if _, err := g.Renew(t.Context(), time.Hour); err != nil {
				t.Errorf("%s, round %d: Renew = %v", what, i, err)
			}
		}
		end()
		if err := g.Release(t.Context()); err != nil {
			t.Errorf("%s: Release = %v", what, err)
		}
	}
}

func tell(t *testing.T, c *pgconn.PgConn, statement string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), statement).ReadAll(); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// awaitEnd waits until the other side has ended idle connections.
func awaitEnd(t *testing.T, idle []*conn) {
	t.Helper()
	for _, c := range idle {
		if !eventually(patience, func() bool { something, _ := peek(c.Conn()); return something }) {
			t.Error("an idle connection stays open")
		}
	}
}

// hooked is a connection that calls before once, before it sends.
type hooked struct {
	*net.TCPConn
	before func()
}

func (h *hooked) Write(b []byte) (int, error) {
	if f := h.before; f != nil {
		h.before = nil
		f()
	}
	return h.TCPConn.Write(b)
}

// TestIdleNeverUsed: the server ends a connection between the look at it and the sending. The request before had left
// while it was made, so this one is its first.
func TestIdleNeverUsed(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	d.listening(t)
	pool := d.wire.pool
	pool.drop(driver.Now())
	pool.config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &hooked{TCPConn: c.(*net.TCPConn)}, nil
	}
	pool.places <- struct{}{}
	must(t, pool.connect())
	c := <-pool.idle
	pool.idle <- c
	tell(t, c.PgConn, "SET idle_session_timeout = '2s'")
	c.Conn().(*hooked).before = func() { awaitEnd(t, []*conn{c}) }
	if _, err := d.Inspect(t.Context(), "new idle closed"); err != nil {
		t.Errorf("Inspect = %v", err)
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
		if f := (&store{ctx: t.Context()}).classify(t.Context(), err); err.Severity == "FATAL" && f.Maybe == want {
			t.Errorf("%+v may have been carried out: %v, %v", err, f.Maybe, errors.Unwrap(f.Err))
		}
	}
}
