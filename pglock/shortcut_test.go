// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestShortcuts: the statements for ordinary cases, of a request alone and of many, grant
// nothing that the others would not.
func TestShortcuts(t *testing.T) {
	t.Parallel()
	const schema = "shortcuts"
	p := server(t)
	in := func(s string) string { return inSchema(s, schema) }
	d := open(t, p.URL("pawl"), &Options{Schema: schema})
	release(t, take(t, d, "x", 20*time.Second))
	ask := in("SELECT code FROM pawl.acquire(TL, 'x', 'l', 'c', 0, '{}', 20000000, 1000000, 0, 10000000, 0)")
	many := in("SELECT count(lease) FROM pawl.acquire_many(TL, 'c', '{x}', '{l}', '{{}}', '{20000000}')")
	many = strings.Replace(many, "'{{}}'", `'{"{}"}'`, 1)
	const tl = "(SELECT timeline FROM pawl.epoch)"
	for _, c := range []struct {
		what, timeline, change, back string
		code                         string
	}{
		{"in quarantine", tl, "UPDATE pawl.epoch SET closed = pawl.us() + 60000000", "UPDATE pawl.epoch SET closed = 0", "0"},
		{"for longer than MaxTTL", tl, "UPDATE pawl.epoch SET max_ttl = 10000000", "UPDATE pawl.epoch SET max_ttl = 30000000", "-5"},
		{"with the record of a run before", tl, "UPDATE pawl.epoch SET started = started - interval '1 hour'", "UPDATE pawl.epoch SET started = started + interval '1 hour'", "-1"},
		{"on another timeline than the server's", tl, "UPDATE pawl.epoch SET timeline = timeline + 1", "UPDATE pawl.epoch SET timeline = timeline - 1", "-1"},
		{"to a client that believes in another timeline", "7", "SELECT 1", "SELECT 1", "-1"},
		{"without a replica", tl, "UPDATE pawl.epoch SET mode = 'synchronous'", "UPDATE pawl.epoch SET mode = 'durable'", "-6"},
		{"before a waiter", tl, "INSERT INTO pawl.waiter(name, lease, place, client, kind, record, since, looks) VALUES ('x', 'w', 1, 'c', 0, '{}', 0, pawl.us() + 60000000); UPDATE pawl.lock SET waiters = 1",
			"DELETE FROM pawl.waiter; UPDATE pawl.lock SET waiters = 0", "0"},
		{"beside a reader", tl, "INSERT INTO pawl.sharer(name, lease, client, kind, token, until, since, record) VALUES ('x', 'r', 'c', -1, 1, pawl.us() + 60000000, 0, '{}'); UPDATE pawl.lock SET sharers = 1, kind = -1, soonest = pawl.us() + 60000000",
			"DELETE FROM pawl.sharer; UPDATE pawl.lock SET sharers = 0", "0"},
		{"after its release", tl, "INSERT INTO pawl.ended(lease, until) VALUES ('l', pawl.us() + 60000000)", "DELETE FROM pawl.ended", "-3"},
		{"what is held", tl, "UPDATE pawl.lock SET lease = 'h', client = 'c', record = '{}', tok = token, since = 0, until = pawl.us() + 60000000", "UPDATE pawl.lock SET lease = NULL", "0"},
	} {
		sql(t, p, in(c.change))
		if got := sql(t, p, strings.Replace(many, "TL", in(c.timeline), 1)); got != "0" {
			t.Errorf("many requests: granted %s", c.what)
		}
		if got := sql(t, p, strings.Replace(ask, "TL", in(c.timeline), 1)); got != c.code {
			t.Errorf("one request: code %s %s; want %s", got, c.what, c.code)
		}
		sql(t, p, in(c.back))
		if got := sql(t, p, in("SELECT count(*) FROM pawl.lock WHERE lease IS NOT NULL")); got != "0" {
			t.Errorf("the name is held %s", c.what)
		}
	}
	for what, statement := range map[string]string{"one request": ask, "many requests": many} {
		// The last token is ahead of the clock.
		sql(t, p, in("UPDATE pawl.lock SET lease = NULL, token = pawl.us() + 60000000"))
		if got := sql(t, p, strings.Replace(statement, "TL", in(tl), 1)); got != "1" {
			t.Errorf("%s for what is free: %s, want 1", what, got)
		}
		if got := sql(t, p, in("SELECT tok > pawl.us() + 10000000 AND token >= tok FROM pawl.lock")); got != "t" {
			t.Errorf("%s: the token does not grow", what)
		}
	}
}

// ownSchema makes a store in a schema of its own. in lets statements be about that, and c is
// a connection of the owner.
func ownSchema(t *testing.T, schema string) (p *servers.Postgres, in func(string) string, c *pgx.Conn) {
	p = server(t)
	open(t, p.URL("pawl"), &Options{Schema: schema})
	c = connect(t, p.URL("pawl"))
	return p, func(s string) string { return inSchema(s, schema) }, c
}

// TestHandOver: what is handed to a waiter is worth as much as what a request is granted:
// whatever the session's commits wait for, and nothing where nothing may be granted.
func TestHandOver(t *testing.T) {
	t.Parallel()
	p, in, c := ownSchema(t, "hand over")
	hearing(t, p, "hand over")
	ends := map[string]string{
		"release":         "SELECT pawl.release('x', 'l', 1000000, false, false)",
		"release, late":   "SELECT pawl.release('x', 'l', 1000000, false, true)",
		"break":           "SELECT pawl.break('x', 'l', 1000000, '{}')",
		"a waiter leaves": "UPDATE pawl.lock SET lease = NULL; INSERT INTO pawl.waiter(name, lease, place, client, kind, record, since) VALUES ('x', 'first', 0, 'hand over', 0, '{}', 0); UPDATE pawl.lock SET waiters = 2; SELECT pawl.release('x', 'first', 1000000, true, false)",
	}
	for what, end := range ends {
		for _, is := range []struct {
			change, level, after, heir string
		}{
			{"mode = 'durable'", "off", "on", "w"},
			{"mode = 'durable'", "local", "local", "w"},
			{"mode = 'async'", "on", "off", "w"},
			{"mode = 'synchronous'", "on", "", ""},
			{"mode = 'durable', closed = pawl.us() + 60000000", "on", "", ""},
			{"mode = 'durable', started = started - interval '1 hour'", "on", "", ""},
		} {
			tx, err := c.Begin(t.Context())
			must(t, err)
			var level, heir string
			_, err = tx.Exec(t.Context(), in("UPDATE pawl.epoch SET "+is.change+`;
				INSERT INTO pawl.lock(name, lease, client, tok, token, until, since, record, waiters) VALUES ('x', 'l', 'c', 1, 1, pawl.us() + 60000000, 0, '{}', 1);
				INSERT INTO pawl.waiter(name, lease, place, client, kind, record, since) VALUES ('x', 'w', 1, 'hand over', 0, '{}', 0);
				SET LOCAL synchronous_commit = `+is.level+"; "+end))
			if err == nil {
				err = tx.QueryRow(t.Context(), in("SELECT current_setting('synchronous_commit'), coalesce(lease, '') FROM pawl.lock")).Scan(&level, &heir)
			}
			must(t, tx.Rollback(t.Context()))
			if err != nil || heir != is.heir || is.after != "" && level != is.after {
				t.Errorf("%s, %s, synchronous_commit %s: handed to %q, and it is %q, %v; want %q, %q", what, is.change, is.level, heir, level, err, is.heir, is.after)
			}
		}
	}
}
