// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestPausedLeader: the leader pauses, as for a garbage collection, and a follower cannot
// be heard by it when it goes on. A client of that follower was idle meanwhile, and took
// the lock just before: the request is carried out, but the leader has not heard of the
// client for longer than its timeout allows for. Nobody trusts the lease when the next
// one begins.
func TestPausedLeader(t *testing.T) {
	t.Parallel()
	e, name := useEnsemble(t)
	const ttl = 3 * time.Second
	leader := e.leader(t)
	follower := (leader + 1) % 3
	idle := openURL(t, e.url(follower), ttl)
	a := clientOf(t, idle.wire, ttl)
	b := openURL(t, e.url(leader, (leader+2)%3), 20*time.Second)
	release(t, take(t, b, request(name, 20*time.Second))) // the node of the name is there now
	// The client connected long ago.
	drivertest.Until(t, "an idle client asks the servers nothing", func() bool { return firstSession(idle).asks() > 3 })

	e.servers[leader].Stop()
	time.Sleep(ttl * 3 / 4) // it is the pause that is tested
	sent := e.outs[follower].setAfter(encodeName(name), mute)
	held := make(chan *pawl.Lease, 1)
	var trusted time.Time // until when the lease was, when it began: it may be told of its end earlier
	go func() {
		l, err := a.TryAcquire(context.Background(), name)
		if err != nil {
			t.Logf("the client did not get the lock: %v", err)
		} else {
			trusted = l.Deadline()
		}
		held <- l
	}()
	select {
	case <-sent:
	case <-held: // the client has noticed that nobody confirms its session, and given it up
		return
	case <-time.After(patience):
		t.Fatal("the follower does not pass the request on")
	}
	e.servers[leader].Cont()
	drivertest.Until(t, "the request was not carried out", func() bool { return len(childrenOf(t, b, name)) > 0 })
	made := driver.Now()
	w := wait(t, b, request(name, 20*time.Second))
	next := w.granted(t)
	t.Logf("the next lease began %v after the request was carried out", w.At.Sub(made))
	select {
	case l := <-held:
		if l != nil && time.Now().Before(trusted) {
			t.Errorf("the lease with token %d is trusted until %v when the next one, %d, has begun",
				l.Token(), trusted, next.Token())
		}
	default: // it is not trusted yet, and never will be
	}
	release(t, next)
}

// asks returns how often a quorum has confirmed the session.
func (s *session) asks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.touches)
}

// TestDeafHolder: what a holder sends arrives, and it hears nothing. Each of its requests to connect again makes
// the session live on. So it ends the session when it gives up, and the name is free at once: without that,
// it would be two thirds of a session later, as it waits for a third of one for an answer.
func TestDeafHolder(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	const ttl = 9 * time.Second
	link := drivertest.NewLink(t, s.Addr)
	p := openURL(t, "zk://"+link.Addr(), ttl)
	a := clientOf(t, p.wire, ttl)
	const name = "deaf"
	held, err := a.Acquire(t.Context(), name)
	must(t, err)
	b := openURL(t, s.url(), time.Minute)
	w := wait(t, b, request(name, time.Minute))
	one, n := firstSession(p), nodeOf(p.wire, driver.Ref{Name: name, Lease: held.ID()})
	link.Set(drivertest.RepliesLost)
	drivertest.Receive(t, one.dead, "a session that hears nothing is kept")
	gaveUp := driver.Now()
	if _, err := p.wire.Renew(t.Context(), driver.Ref{Name: name, Lease: held.ID(), Handle: n}, ttl); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Renew after the session has ended = %v; want ErrLost", err)
	}
	next := w.granted(t)
	if held.Err() == nil {
		t.Error("the lease is trusted when the next one has begun")
	}
	took := w.At.Sub(gaveUp)
	t.Logf("the next lease began %v after the holder had given up", took)
	if took > ttl/2 {
		t.Errorf("the next lease began %v after the holder had given its session up; want at most %v", took, ttl/2)
	}
	release(t, next)
}

// TestPausedWaiters: waiters before a live one are paused, which the servers see as silence. However many they are, the
// name is free for as long as one session lasts, as their sessions end together.
func TestPausedWaiters(t *testing.T) {
	t.Parallel()
	const ttl, paused, name = 8 * time.Second, 6, "paused-waiters"
	s := sharedServer(t)
	link := drivertest.NewLink(t, s.Addr)
	a, c := openURL(t, s.url(), time.Minute), openURL(t, s.url(), time.Minute)
	g := take(t, a, request(name, time.Minute))
	var waiters []*waiting
	for range paused {
		waiters = append(waiters, wait(t, openURL(t, "zk://"+link.Addr(), ttl), renewed(name, ttl)))
	}
	w := wait(t, c, request(name, time.Minute))
	link.Set(drivertest.BlackHole)
	release(t, g)
	free := driver.Now()
	next := w.granted(t)
	took := w.At.Sub(free)
	t.Logf("the name was free for %v behind %d paused waiters; sessions last %v", took, paused, ttl)
	if most := ttl * paused / 2; took > most {
		t.Errorf("the name was free for %v; want %v at most: each of the paused waiters has kept it", took, most)
	}
	link.Set(drivertest.Healthy)
	release(t, next)
	for _, w := range waiters { // they join again, in any order
		go func() {
			if <-w.Done; w.Err == nil {
				w.Lease.Release(context.Background())
			}
		}()
	}
	for _, w := range waiters {
		drivertest.Receive(t, w.Done, "a waiter that was paused does not get the name")
	}
}
