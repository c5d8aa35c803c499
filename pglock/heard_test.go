// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/driver"
)

// TestHeard: what a message says. One that hands a name over counts over the connection and on the timeline of the
// last look only, and not at all if it cannot be read.
func TestHeard(t *testing.T) {
	s, session := &store{where: "server"}, new(pgconn.PgConn)
	s.run.Store(run{timeline: 3})
	hear := func(message string) { s.hear(session, &pgconn.Notification{Payload: message}) }
	var got []driver.Event
	s.Listen(func(e driver.Event) { got = append(got, e) })
	for message, want := range map[string]driver.Event{
		"grant l 7 1000000 2000000 3 5 1 a b": {Kind: driver.Granted, Name: "a b", For: 2 * time.Second,
			Grant: driver.Answer{Token: 7, Spare: 5, Waited: true, Session: listening{session, 3}, Clock: driver.Clock{Server: "server", At: time.Second}}},
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
		hear(message)
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
	if hear(`lost l {"who":"admin","why":"stuck"}`); len(got) != 1 || got[0].Loss == nil || got[0].Loss.By.Who != "admin" || got[0].Loss.Why != "stuck" {
		t.Errorf("the lease was broken: %+v", got)
	}
}

// TestClock: each answer shows the server's clock, by which the participant sees steps and reads messages.
func TestClock(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	us := func() time.Duration { return micros([]byte(sql(t, server(t), "SELECT pawl.us()"))) }
	before := us()
	req := request("shows the clock", time.Minute)
	granted, err := d.wire.Ask(t.Context(), req)
	refused, no := d.wire.Ask(t.Context(), request("shows the clock", time.Minute))
	renewed, fails := d.wire.Renew(t.Context(), driver.Ref{Name: req.Name, Lease: req.Lease}, time.Minute)
	must(t, errors.Join(err, no, fails))
	after := us()
	for i, c := range []driver.Clock{granted.Clock, refused.Clock, renewed.Clock} {
		if c.At < before || c.At > after || c.Sent == 0 || c.Server == "" {
			t.Errorf("answer %d: %+v; want a time between %v and %v", i, c, before, after)
		}
	}
}

// TestListensAgain: a waiter that has polled for a while, as it could not hear, and hears again is not taken for gone
// when it does not poll any more.
func TestListensAgain(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	take(t, d, "listens again", time.Hour)
	q := &asking{Request: request("listens again", time.Hour), record: "{}", handle: new(handle)}
	polls := func() string {
		return sql(t, server(t), "SELECT looks IS NOT NULL FROM pawl.waiter WHERE lease = '"+q.Lease+"'")
	}
	for _, c := range []struct{ wait, polls string }{{looks, "t"}, {hears, "f"}, {looks, "t"}} {
		q.wait = c.wait
		a, err := d.wire.acquire(t.Context(), q)
		must(t, err)
		q.handle.place = max(q.handle.place, long(a.row[9]))
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
