// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestPausedWaiters: a hundred waiters whose client is paused are before two that live. One of these gets the name
// after a claim that nobody takes and a look of its own, not after a hundred claims. The next hand-off is not to one
// that is paused. These have their places again when they are back.
func TestPausedWaiters(t *testing.T) {
	t.Parallel()
	const paused = 100 // with a claim of a second for each they would keep the name for longer than patience
	p := server(t)
	pooler := servers.StartPgBouncer(t, p, "")
	hearing(t, p, "paused")
	for kind, c := range map[string]struct {
		kinds string // of waiter i that is paused
		slots int
		url   string
	}{
		"exclusive":           {"0", 0, p.URL("pawl")},
		"slot":                {"1", 1, p.URL("pawl")},
		"readers and writers": {"-(i % 2)", 0, p.URL("pawl")},
		"no messages":         {"0", 0, pooler.URL()},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			name := "paused " + kind
			req := func() *driver.Request {
				req := request(name, time.Minute)
				req.Slots = c.slots
				return req
			}
			queue := func(column string) string {
				return sql(t, p, "SELECT "+column+" FROM pawl.waiter WHERE name = '"+name+"'")
			}
			g, err := open(t, c.url, wide).TryAcquire(t.Context(), req())
			must(t, err)
			haunt(t, p, "pawl", name, "'paused'", c.kinds, paused)
			got := make(chan *participant.Lease, 2)
			for i := range cap(got) {
				d := open(t, c.url, wide)
				go func() {
					g, err := d.Acquire(t.Context(), req())
					if err != nil {
						t.Errorf("Acquire = %v", err)
					}
					got <- g
				}()
				if want := strconv.Itoa(paused + i + 1); !eventually(patience, func() bool { return queue("count(*)") == want }) {
					t.Fatalf("%s are in the queue; want %s", queue("count(*)"), want)
				}
			}
			for left := range cap(got) {
				if err := g.Release(t.Context()); err != nil {
					t.Fatalf("Release = %v", err)
				}
				select {
				case g = <-got:
				case <-time.After(patience):
					t.Fatalf("nobody gets the name behind %d waiters that are paused", paused)
				}
				if g == nil {
					t.FailNow()
				}
				if want := strconv.Itoa(1 - left); !eventually(patience, func() bool { return queue("count(*)") == want }) {
					t.Fatalf("%s are in the queue; want %s that are not paused", queue("count(*)"), want)
				}
			}
			back := open(t, p.URL("pawl"), wide)
			back.listening(t)
			for _, place := range []int64{0, 3, 1, 2} { // 0 has come after them
				r := req()
				r.Lease = fmt.Sprint("ghost", place)
				if _, err := back.wire.acquire(t.Context(), &asking{r, "{}", hears, &handle{place: place}}); err != nil {
					t.Fatal(err)
				}
			}
			if order := queue("string_agg(lease, ' ' ORDER BY place)"); order != "ghost1 ghost2 ghost3 ghost0" {
				t.Errorf("the queue is %s; want those that are back at their places", order)
			}
		})
	}
}
