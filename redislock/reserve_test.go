// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestReserved: an exclusive lease has tokens for its client, and says whether others wait.
func TestReserved(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	g := take(t, a, long("deploy"))
	if n, others := g.Reserved(); n != 4000 || others {
		t.Errorf("Reserved of a free lock = %d, %v; want 4000, false", n, others)
	}
	floor, err := strconv.ParseUint(r.do("get", a.server.FloorKey(lockKey(defaultPrefix, "deploy"))), 10, 64)
	if err != nil || floor < g.Token()+4000 {
		t.Errorf("the server goes on from token %d, %v; want one after those that are reserved behind %d", floor, err, g.Token())
	}
	r.do("set", a.server.FloorKey(lockKey(defaultPrefix, "deploy")), fmt.Sprint(g.Token()+9000)) // as by a name that shares the floor
	again := driver.Request{Name: "deploy", Lease: g.ID(), TTL: time.Minute, Holder: &driver.Holder{}}
	if ans, err := a.store.Ask(t.Context(), &again); err != nil || ans.Token != g.Token() || ans.Spare != 4000 {
		t.Errorf("asked again = %+v, %v; want the same token, and the same tokens to spare", ans, err)
	}
	w := wait(t, r, b, long("deploy"))
	last := wait(t, r, b, long("deploy"))
	release(t, g)
	g = w.granted(patience)
	if n, others := g.Reserved(); n == 0 || !others {
		t.Errorf("Reserved of the first waiter = %d, %v; want some, true", n, others)
	}
	release(t, g)
	g = last.granted(patience)
	if n, others := g.Reserved(); n == 0 || others {
		t.Errorf("Reserved of the last waiter = %d, %v; want some, false", n, others)
	}
	release(t, g)
	g = take(t, a, reading(long("deploy")))
	if n, _ := g.Reserved(); n != 0 {
		t.Errorf("%d tokens are set aside for a reader", n)
	}
	release(t, g)
}

// TestTokensKeepToTheClock: if a client gets a lock so often that its tokens are ahead
// of the server's clock, no tokens are reserved: when the floor is forgotten, only that
// clock gives the next token.
func TestTokensKeepToTheClock(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	d := openLong(t, r)
	g := take(t, d, long("deploy"))
	release(t, g)
	r.do("set", d.server.FloorKey(lockKey(defaultPrefix, "deploy")), fmt.Sprint(serverTime(t, r).Microseconds()+60_000_000))
	for range 2 {
		g = take(t, d, long("deploy"))
		if n, _ := g.Reserved(); n != 0 {
			t.Errorf("%d tokens are set aside", n)
		}
		release(t, g)
	}
	r.do("del", d.server.FloorKey(lockKey(defaultPrefix, "deploy")))
	g = take(t, openLong(t, r), long("deploy")) // d would say that the tokens fall
	if n, _ := g.Reserved(); n != 4000 {
		t.Errorf("%d tokens are set aside; want 4000", n)
	}
	release(t, g)
}
