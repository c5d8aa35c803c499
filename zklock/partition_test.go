// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"context"
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
	e := startEnsemble(t)
	for round := range 4 {
		// Different phases of pings and renewals.
		over, by := cutFollower(t, e, time.Duration(round)*90*time.Millisecond, func(d driver.Driver) driver.Driver { return d })
		if over {
			t.Errorf("round %d: the holder still trusted its lease when the next one began", round)
		} else {
			t.Logf("round %d: the holder stopped %v before the next began", round, by)
		}
	}
	// The control: with a renewal that is an answer of the server, and no more, there are two.
	over, _ := cutFollower(t, e, 0, func(d driver.Driver) driver.Driver { return naive{d.(*store)} })
	if !over {
		t.Error("with renewals that nobody but the cut off server has confirmed there was no overlap: this test sees nothing")
	}
}

// cutFollower has a lease held through a follower, cuts that off from the leader,
// and reports whether the lease was trusted when a waiter at the leader got it, or
// how long before it had ended.
func cutFollower(t *testing.T, e *ensemble, wait time.Duration, wrap func(driver.Driver) driver.Driver) (over bool, by time.Duration) {
	t.Helper()
	leader := e.leader(t)
	follower := (leader + 1) % 3
	a := clientOf(t, wrap(openURL(t, e.url(follower), time.Second)), time.Second)
	b := clientOf(t, openURL(t, e.url(leader), time.Second), time.Second)
	held, err := a.Acquire(t.Context(), "deploy")
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan *pawl.Lease, 1)
	go func() {
		l, err := b.Acquire(context.Background(), "deploy")
		if err != nil {
			t.Error(err)
		}
		next <- l
	}()
	ended := make(chan driver.Instant, 1)
	go func() {
		<-held.Done()
		ended <- driver.Now()
	}()
	time.Sleep(1500*time.Millisecond + wait)
	if err := held.Err(); err != nil {
		t.Fatalf("the lease has ended before the cut: %v", err)
	}
	e.outs[follower].setCut(true)
	var l *pawl.Lease
	select {
	case l = <-next:
	case <-time.After(patience):
		t.Fatal("the waiter waits for ever")
	}
	over = held.Err() == nil
	if !over {
		by = driver.Now().Sub(<-ended)
	}
	if l != nil {
		l.Release(t.Context())
	}
	e.outs[follower].setCut(false)
	e.serve(t)
	held.Release(t.Context())
	a.Close()
	return over, by
}

func clientOf(t testing.TB, d driver.Driver, ttl time.Duration) *pawl.Client {
	t.Helper()
	c, err := pawl.New(d, &pawl.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// naive is a store whose renewals ask the server that is there, as the recipes do.
type naive struct{ *store }

func (n naive) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	g, err := n.store.Acquire(ctx, req)
	if err != nil {
		return g, err
	}
	return naiveGrant{g.(*grant)}, nil
}

type naiveGrant struct{ *grant }

func (g naiveGrant) Renew(_ context.Context, ttl time.Duration) (driver.Instant, error) {
	sent := driver.Now()
	found, _, err := g.s.conn.Exists(g.n.path())
	if err == nil && !found {
		err = driver.ErrLost
	}
	if err == nil {
		g.s.mu.Lock()
		g.expires = sent.Add(ttl)
		g.s.mu.Unlock()
	}
	return sent, err
}
