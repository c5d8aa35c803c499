// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestPausedWaiters: twenty waiters or more are cut off, and two others are behind them. One of these gets
// the name after a claim that nobody takes and a look of its own, not after twenty claims. The next
// hand-off is not to one that is cut off. These get the name in their order when they are back.
func TestPausedWaiters(t *testing.T) {
	t.Parallel()
	const freeFor = 3 * time.Second
	p := server(t)
	pooler := servers.StartPgBouncer(t, p, "")
	for kind, c := range map[string]struct {
		paused int
		shared bool // each second one that is paused
		slots  int
		addr   string
	}{
		"exclusive":           {40, false, 0, p.Addr},
		"slot":                {20, false, 1, p.Addr},
		"readers and writers": {20, true, 0, p.Addr},
		"no messages":         {20, false, 0, pooler.Addr},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			name := "paused " + kind
			type waiting struct {
				g   *participant.Lease
				err error
				at  driver.Instant
			}
			queue := func() int {
				n, _ := strconv.Atoi(sql(t, p, "SELECT count(*) FROM pawl.waiter WHERE name = '"+name+"'"))
				return n
			}
			want := 0
			req := func() *driver.Request {
				req := request(name, time.Minute)
				req.Slots = c.slots
				return req
			}
			wait := func(s *client, shared bool) chan waiting {
				want++
				done := make(chan waiting, 1)
				go func() {
					req := req()
					req.Shared = shared
					g, err := s.Acquire(t.Context(), req)
					done <- waiting{g, err, driver.Now()}
				}()
				if !eventually(patience, func() bool { return queue() == want }) {
					t.Fatalf("%d are in the queue; want %d", queue(), want)
				}
				return done
			}
			got := func(w waiting) *participant.Lease {
				t.Helper()
				if w.err != nil {
					t.Fatalf("Acquire = %v", w.err)
				}
				return w.g
			}
			release := func(g *participant.Lease) {
				t.Helper()
				if err := g.Release(t.Context()); err != nil {
					t.Fatalf("Release = %v", err)
				}
			}
			url := "postgres://pawl@" + c.addr + "/postgres?sslmode=disable"
			opts := &Options{MaxTTL: wide.MaxTTL, ConnectTimeout: patience}
			one, two, three := open(t, url, opts), open(t, url, opts), open(t, url, opts)
			g, err := one.TryAcquire(t.Context(), req())
			if err != nil {
				t.Fatal(err)
			}
			links, cut := make([]*drivertest.Link, c.paused), make([]chan waiting, c.paused)
			for i := range links {
				links[i] = drivertest.NewLink(t, c.addr)
				cut[i] = wait(openThrough(t, links[i], opts).client, c.shared && i%2 == 0)
			}
			next, last := wait(two, false), wait(three, false)
			for _, link := range links {
				link.Set(drivertest.BlackHole)
			}
			began := driver.Now()
			release(g)
			var w waiting
			for end, granted := time.After(time.Minute), false; !granted; {
				granted = true
				select {
				case w = <-next:
				case w = <-last:
					last = next
				case <-time.After(2 * freeFor):
					granted = false
					// A look that was under way when the link was cut may have the name, for a whole TTL.
					if strings.Contains(sql(t, p, "UPDATE pawl.lock SET until = pawl.us() WHERE name = '"+name+"' AND lease IS NOT NULL AND until > since + 2000000 AND client NOT IN ('"+
						two.wire.id+"', '"+three.wire.id+"') RETURNING 'ended'"), "ended") {
						t.Log("a waiter that is paused had the name")
						began = driver.Now()
					}
				case <-end:
					t.Fatalf("nobody gets the name behind %d waiters that are paused; the server has\n%s", c.paused, sql(t, p,
						"SELECT pid, state, now() - query_start, wait_event, left(query, 80) FROM pg_stat_activity WHERE backend_type = 'client backend' AND (state <> 'idle' OR query LIKE '%acquire(%') UNION ALL "+
							"SELECT 0, w.lease, NULL, (w.looks - pawl.us())::text, (w.place - (SELECT min(place) FROM pawl.waiter v WHERE v.name = w.name))::text FROM pawl.waiter w WHERE w.name = '"+name+"' UNION ALL "+
							"SELECT 0, l.lease, NULL, (l.until - pawl.us())::text, l.waiters::text FROM pawl.lock l WHERE l.name = '"+name+"'"))
				}
			}
			g = got(w)
			if d := w.at.Sub(began); d > freeFor+patience/2 { // with claims one after the other it was over a minute
				t.Errorf("a waiter behind %d that are paused got the name after %v; want %v at most", c.paused, d, freeFor)
			} else {
				t.Logf("the name was free for %v", d)
			}
			if !eventually(patience, func() bool { return queue() == 1 }) {
				t.Fatalf("%d are in the queue; want the one that is not paused", queue())
			}
			release(g)
			select {
			case w = <-last:
				g = got(w)
			case <-time.After(time.Minute):
				t.Fatal("the other waiter that is not paused gets nothing")
			}
			want = 0
			late := wait(two, false)
			for _, link := range links {
				link.Set(drivertest.Healthy)
			}
			if !eventually(time.Minute, func() bool { return queue() == c.paused+1 }) {
				t.Fatalf("%d are in the queue; want all that were paused, and one that came after them", queue())
			}
			for i, w := range append(cut, late) {
				release(g)
				select {
				case w := <-w:
					g = got(w)
				case <-time.After(time.Minute):
					t.Fatalf("waiter %d does not get the name in its turn", i)
				}
			}
			release(g)
		})
	}
}
