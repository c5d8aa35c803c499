// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// TestCutFollower: a server that is cut off from its leader goes on answering
// pings and reads. The lease of a holder who is connected to it ends before the
// next one begins.
func TestCutFollower(t *testing.T) {
	t.Parallel()
	e, name := useEnsemble(t)
	for round := range 2 {
		// Different phases of pings and renewals.
		over, by := cutFollower(t, e, name, time.Duration(round)*270*time.Millisecond)
		if over {
			t.Errorf("round %d: the holder still trusted its lease when the next one began", round)
		} else {
			t.Logf("round %d: the holder stopped %v before the next began", round, by)
		}
	}
}

// cutFollower has a lease held through a follower, cuts that off from the leader,
// and reports whether the lease was trusted when a waiter at the leader got it, or
// how long before it had ended.
func cutFollower(t *testing.T, e *ensemble, name string, phase time.Duration) (over bool, by time.Duration) {
	t.Helper()
	const ttl = 2 * time.Second
	leader := e.leader(t)
	follower := (leader + 1) % 3
	a := clientOf(t, openURL(t, e.url(follower), ttl).wire, ttl)
	b := openURL(t, e.url(leader), time.Minute) // it bears a slow machine
	defer a.Close()
	defer b.Close()
	held, err := a.Acquire(t.Context(), name)
	must(t, err)
	w := wait(t, b, request(name, time.Minute))
	ended := make(chan driver.Instant, 1)
	go func() {
		<-held.Done()
		ended <- driver.Now()
	}()
	time.Sleep(ttl + phase)
	if held.Err() != nil { // the machine is too busy to renew in time; once more
		release(t, w.granted(t))
		return cutFollower(t, e, name, phase)
	}
	e.outs[follower].set(cut)
	defer func() {
		e.outs[follower].heal()
		e.serve(t)
	}()
	next := w.granted(t)
	if over = held.Err() == nil; !over {
		by = w.At.Sub(<-ended)
	}
	release(t, next)
	return over, by
}

func clientOf(t testing.TB, d driver.Store, ttl time.Duration) *pawl.Client {
	t.Helper()
	c, err := pawl.New(d, &pawl.Options{TTL: ttl})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}
