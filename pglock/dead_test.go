// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/internal/participant"
)

// A call takes mostDead waiters that have died out of a queue. For manyDead it takes three.
const (
	mostDead = 1000
	manyDead = 2*mostDead + mostDead/2
)

// haunt puts waiters that have died to the head of the queue of a name, as many clients.
func haunt(t *testing.T, p *servers.Postgres, schema, name string, n int) {
	t.Helper()
	sql(t, p, fmt.Sprintf(`INSERT INTO %[1]s.waiter(name, lease, place, client, kind, record, since)
			SELECT '%[2]s', 'dead' || i, i, 'ghost' || i, 0, '{}', 0 FROM generate_series(1, %[3]d) i;
		UPDATE %[1]s.lock SET waiters = waiters + %[3]d WHERE name = '%[2]s'`, schema, name, n))
}

// TestDeadWaiters: more waiters have died in a queue than a call takes out. The release frees
// the name all the same, and whoever asks next gets it; no call does more than its part, nor
// keeps a lock for each of them.
func TestDeadWaiters(t *testing.T) {
	t.Parallel()
	p := server(t)
	d := open(t, p.URL("pawl"), &Options{Schema: "dead", MaxTTL: time.Minute})
	left := func(want int) {
		t.Helper()
		if n := sql(t, p, "SELECT count(*) || ' ' || (SELECT waiters FROM dead.lock WHERE name = 'x') FROM dead.waiter"); n != fmt.Sprint(want, " ", want) {
			t.Errorf("waiters in the queue, and as counted: %s; want %d", n, want)
		}
	}
	g := take(t, d, "x", time.Minute)
	haunt(t, p, "dead", "x", manyDead)
	locks := sql(t, p, "BEGIN; SELECT dead.release('x', '"+ref(t, d, "x").Lease+"', 1000000, false, false); SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid(); ROLLBACK")
	if locks != "1\n0" {
		t.Errorf("a release, and how many advisory locks it keeps: %q; want none", locks)
	}
	if err := g.Release(t.Context()); err != nil {
		t.Error(err)
	}
	left(manyDead - mostDead)
	if err := take(t, d, "x", time.Minute).Release(t.Context()); err != nil {
		t.Error(err)
	}
	left(0)
}

// TestWaitersBehindDead: those that live, behind more dead ones than a call takes out, get the
// name in their order.
func TestWaitersBehindDead(t *testing.T) {
	t.Parallel()
	p := server(t)
	opts := &Options{Schema: "behind", MaxTTL: time.Minute}
	d := open(t, p.URL("pawl"), opts)
	g := take(t, d, "x", time.Minute)
	got := make(chan *participant.Lease, 2)
	errs := make(chan error, 2)
	leases := make([]string, 2)
	for i := range leases {
		req, other := request("x", time.Minute), open(t, p.URL("pawl"), opts)
		leases[i] = req.Lease
		go func() {
			g, err := other.Acquire(t.Context(), req)
			got <- g
			errs <- err
		}()
		if !eventually(patience, func() bool { return sql(t, p, "SELECT count(*) FROM behind.waiter") == fmt.Sprint(i+1) }) {
			t.Fatal("it does not join the queue")
		}
	}
	haunt(t, p, "behind", "x", manyDead)
	for _, lease := range leases {
		if err := g.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case g = <-got:
		case <-time.After(patience):
			t.Fatal("nobody gets the name")
		}
		if err := <-errs; err != nil || ref(t, d, "x").Lease != lease {
			t.Fatalf("another waiter got the name, or %v; want the one in front", err)
		}
	}
	if err := g.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
