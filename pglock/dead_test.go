// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// A call takes mostDead waiters that have died out of a queue. For manyDead it takes three.
const (
	mostDead = 1000
	manyDead = 2*mostDead + mostDead/2
)

// haunt puts n waiters into the queue of a name. Waiter i is of the given client and kind, which are SQL.
func haunt(t *testing.T, p *servers.Postgres, schema, name, client, kind string, n int) {
	t.Helper()
	sql(t, p, fmt.Sprintf(`INSERT INTO %[1]s.waiter(name, lease, place, client, kind, record, since)
			SELECT '%[2]s', 'ghost' || i, i, %[3]s, %[4]s, '{}', 0 FROM generate_series(1, %[5]d) i;
		UPDATE %[1]s.lock SET waiters = waiters + %[5]d WHERE name = '%[2]s'`, schema, name, client, kind, n))
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
	haunt(t, p, "dead", "x", "'ghost' || i", "0", manyDead)
	locks := sql(t, p, "BEGIN; SELECT dead.release('x', '"+ref(t, d, "x").Lease+"', 1000000, false, false); SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid(); ROLLBACK")
	if locks != "1\n0" {
		t.Errorf("a release, and how many advisory locks it keeps: %q; want none", locks)
	}
	release(t, g)
	left(manyDead - mostDead)
	release(t, take(t, d, "x", time.Minute))
	left(0)
}
