// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
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
	sql(t, server(t), `DELETE FROM pawl.lock WHERE name = 'in vain'; INSERT INTO pawl.lock(name, lease, client, tok, token, until, since, record)
		VALUES ('in vain', 'gone', 'c', 1, 1, pawl.us() + 60000000, 0, '{}')`)
	d.wire.hear(1, fmt.Sprintf("grant gone 1 %d 60000000 1 0 0 in vain", time.Now().UnixMicro()))
	if !eventually(patience, func() bool {
		return sql(t, server(t), "SELECT count(*) FROM pawl.lock WHERE name = 'in vain' AND lease IS NOT NULL") == "0"
	}) {
		t.Error("the name stays held")
	}
}

// TestHeard: what a message says. One that hands a name over counts over the connection and on the timeline of the
// last look only, and not at all if it cannot be read.
func TestHeard(t *testing.T) {
	s := &store{where: "server", run: run{timeline: 3}}
	var got []driver.Event
	s.Listen(func(e driver.Event) { got = append(got, e) })
	for message, want := range map[string]driver.Event{
		"grant l 7 1000000 2000000 3 5 1 a b": {Kind: driver.Granted, Name: "a b", For: 2 * time.Second,
			Grant: driver.Answer{Token: 7, Spare: 5, Waited: true, Session: listening{2, 3}, Clock: driver.Clock{Server: "server", At: time.Second}}},
		"grant l 7 1000000 2000000 2 0 0 a": {Kind: driver.Granted, Name: "a", For: 2 * time.Second,
			Grant: driver.Answer{Token: 7, Clock: driver.Clock{Server: "server", At: time.Second}}},
		"first l 1500":                      {Kind: driver.Look, Grant: driver.Answer{Free: 1500 * time.Microsecond}},
		"wanted l 1":                        {Kind: driver.Wanted, Waits: true},
		"wanted l 0":                        {Kind: driver.Wanted},
		"grant l 7 x 1":                     {},
		"grant l 7 1000000 2000000 3 5 x a": {},
		"new l":                             {},
	} {
		got = nil
		s.hear(2, message)
		if want.Kind == 0 {
			if len(got) != 0 {
				t.Errorf("%q: %+v; want nothing", message, got)
			}
			continue
		}
		want.Lease = "l"
		if len(got) == 1 {
			want.Heard = got[0].Heard
		}
		if len(got) != 1 || fmt.Sprintf("%+v", got[0]) != fmt.Sprintf("%+v", want) || got[0].Grant.Session != want.Grant.Session {
			t.Errorf("%q: %+v; want %+v", message, got, want)
		}
	}
	got = nil
	if s.hear(2, `lost l {"who":"admin","why":"stuck"}`); len(got) != 1 || got[0].Loss == nil || got[0].Loss.By.Who != "admin" || got[0].Loss.Why != "stuck" {
		t.Errorf("the lease was broken: %+v", got)
	}
}

// TestHeardAnew: when there is a new connection to listen on, each lease is asked for: what was said in between is
// lost.
func TestHeardAnew(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	g := take(t, d, "anew", time.Hour)
	lost := make(chan error, 1)
	g.OnLost(func(err error) { lost <- err })
	d.listening(t)
	sql(t, server(t), "UPDATE pawl.lock SET lease = NULL WHERE name = 'anew'; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN \"pawl:"+d.wire.id+"%'")
	select {
	case err := <-lost:
		if !errors.Is(err, driver.ErrLost) {
			t.Errorf("told %v; want ErrLost", err)
		}
	case <-time.After(patience):
		t.Error("nobody asks for the lease")
	}
}

// TestClockForward: leases that the server must have ended because its clock was set
// forward are lost at once; others are not.
func TestClockForward(t *testing.T) {
	t.Parallel()
	p := server(t)
	d := open(t, p.URL("pawl"), &Options{Schema: "forward", MaxTTL: time.Hour})
	told := make(chan string, 2)
	for name, ttl := range map[string]time.Duration{"short": 20 * time.Second, "long": time.Hour} {
		take(t, d, name, ttl).OnLost(func(error) { told <- name })
	}
	news := make(chan driver.News, 10)
	d.OnNews(func(n driver.News) { news <- n })
	sql(t, p, `CREATE OR REPLACE FUNCTION forward.us() RETURNS bigint LANGUAGE sql VOLATILE AS
		$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 60000000 $$`)
	take(t, d, "see", time.Minute)
	select {
	case name := <-told:
		if name != "short" {
			t.Errorf("the lease %q is lost; want the short one", name)
		}
	case <-time.After(patience):
		t.Error("no lease is lost")
	}
	if n := <-news; n.Step < 50*time.Second {
		t.Errorf("news: %+v; want the step", n)
	}
	if len(told) != 0 {
		t.Error("both leases are lost")
	}
}

// TestListensAgain: a waiter that has polled for a while, as it could not hear, and hears again is not taken for gone
// when it does not poll any more.
func TestListensAgain(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	take(t, d, "listens again", time.Hour)
	q := &asking{Request: request("listens again", time.Hour), record: "{}"}
	polls := func() string {
		return sql(t, server(t), "SELECT looks IS NOT NULL FROM pawl.waiter WHERE lease = '"+q.Lease+"'")
	}
	for _, c := range []struct{ wait, polls string }{{looks, "t"}, {hears, "f"}, {looks, "t"}} {
		q.wait = c.wait
		a, err := d.wire.acquire(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		q.place = max(q.place, long(a.row[9]))
		if got := polls(); got != c.polls {
			t.Errorf("a waiter polls: %s; want %s", got, c.polls)
		}
	}
	if _, err := d.wire.End(t.Context(), driver.Ref{Name: q.Name, Lease: q.Lease}, driver.End{Unsure: true}); err != nil {
		t.Error(err)
	}
}

// TestListenRefused: a waiter whose client may not listen is told why, and does not poll instead.
func TestListenRefused(t *testing.T) {
	t.Parallel()
	p := server(t)
	d := open(t, p.URL("pawl"), &Options{MaxTTL: wide.MaxTTL, Listen: p.URL("nobody")})
	take(t, d, "listen refused", time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := d.Acquire(ctx, request("listen refused", time.Minute)); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("Acquire = %v; want ErrDenied", err)
	}
}
