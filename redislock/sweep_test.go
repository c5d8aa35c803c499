// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// haunt puts waiters that have died into a queue, one at each place from first on.
func haunt(r *redis, name string, n, first int) {
	var args []string
	for i := first; i < first+n; i++ {
		args = append(args, strconv.Itoa(i), attemptText(fmt.Sprint("lease", i), fmt.Sprint("ghost", i), exclusive, "{}"))
	}
	r.do(append([]string{"zadd", lockKey(defaultPrefix, name) + queueSuffix}, args...)...)
}

// TestDeadWaiters: thousands of waiters have died in the queue before one that lives. The end
// of the lease costs the server a few commands for each hundred of them, and not for each.
func TestDeadWaiters(t *testing.T) {
	t.Parallel()
	const dead = 5000
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	g := take(t, a, long("deploy"))
	w := wait(t, r, b, long("deploy"))
	haunt(r, "deploy", dead, 1)
	r.do("config", "resetstat")
	release(t, g)
	release(t, w.granted(patience))
	if calls := callsOf(r, "pubsub|numsub"); calls == 0 || calls > dead/100+10 {
		t.Errorf("the server was asked %d times which waiters live, of which %d do not; want once for a hundred", calls, dead)
	}
	if n := r.do("zcard", lockKey(defaultPrefix, "deploy")+queueSuffix); n != "0" {
		t.Errorf("%s waiters are left; want none", n)
	}
}

// TestDeafWaiterAmongDead: a waiter asks whose client has no subscription at the moment, and
// waiters have died before it. It is granted the lock before one that lives and is behind it.
func TestDeafWaiterAmongDead(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s := openLong(t, r) // connected, and does not look
	queue := lockKey(defaultPrefix, "deploy") + queueSuffix
	haunt(r, "deploy", 150, 1)
	r.do("zadd", queue, "151", attemptText("MINE", "deaf", exclusive, "{}"))
	haunt(r, "deploy", 50, 152)
	r.do("zadd", queue, "202", attemptText("NEXT", s.id, exclusive, "{}"))
	got := runMany(t, s, acquireScript, []string{"deaf", exclusive, "{}", "60000", claimMillis, defaultPrefix + "client:", "1", "151"},
		[][2]string{{"deploy", "MINE"}})
	if value := r.do("get", lockKey(defaultPrefix, "deploy")); got[0] != "1" || !strings.HasPrefix(value, "MINE ") {
		t.Errorf("the answer is %v, and the lock is %q; want that it was granted to MINE", got, value)
	}
	if n := r.do("zcard", queue); n != "1" {
		t.Errorf("%s waiters are left; want the one that lives", n)
	}
}

// callsOf returns how often a command was called since CONFIG RESETSTAT.
func callsOf(r *redis, command string) int {
	_, rest, _ := strings.Cut(r.do("info", "commandstats"), "cmdstat_"+command+":calls=")
	calls, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(calls)
	return n
}
