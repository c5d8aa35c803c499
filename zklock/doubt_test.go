// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestOldCreateComesLate: a request to make a node is held up between a follower and the
// leader. The client goes to the leader, where it finds nothing and makes another node,
// and then back to the follower: now the old request is carried out, too. One node is
// left while the lease is held, and none afterwards.
func TestOldCreateComesLate(t *testing.T) {
	t.Parallel()
	e, name := useEnsemble(t)
	const ttl = 20 * time.Second
	leader := e.leader(t)
	follower := (leader + 1) % 3
	link := drivertest.NewLink(t, e.servers[follower].Addr)
	d := openURL(t, "zk://"+link.Addr(), ttl)
	busy := openURL(t, e.url(follower), ttl)
	other := openURL(t, e.url(leader), ttl)
	work := make([]any, 3000) // for the leader
	for i := range work {
		work[i] = &zk.CheckVersionRequest{Path: other.wire.dir(name + "/busy"), Version: -1}
	}
	release(t, take(t, other, request(name+"/busy", ttl)))
	delay := func() {
		for range 10 {
			go firstSession(busy).conn.Multi(work...)
		}
	}
	late := 0
	for round := range 8 {
		if late += oldCreateComesLate(t, e, link, d, other, delay, fmt.Sprint(name, "/", round), round%2 == 0); late > 1 {
			break
		}
	}
	if late == 0 {
		t.Error("no old request was carried out: this test sees nothing")
	}
}

// oldCreateComesLate returns how many requests were carried out late. If the leader is
// alone it hears neither of the others for a while.
func oldCreateComesLate(t *testing.T, e *ensemble, link *drivertest.Link, d, other *client, delay func(), name string, alone bool) int {
	t.Helper()
	const ttl = 20 * time.Second
	leader := e.leader(t)
	follower := (leader + 1) % 3
	release(t, take(t, other, request(name, ttl))) // the node of the name is there now
	link.Redirect(e.servers[follower].Addr)
	g, err := d.Acquire(t.Context(), request(name, ttl)) // which repeats what the old connection has lost
	must(t, err)
	release(t, g)

	// The leader has much to do before it comes to the old request.
	held := e.outs[follower].setAfter("busy", holding)
	delay()
	drivertest.Receive(t, held, "the leader has no other work")
	if alone {
		e.outs[(leader+2)%3].set(holding)
	}
	sent := e.outs[follower].setAfter(d.wire.dir(name)+"/", holding)
	req := request(name, ttl)
	granted := make(chan *lease, 1)
	go func() {
		g, err := d.Acquire(t.Context(), req)
		if err != nil {
			t.Errorf("Acquire = %v; want a grant", err)
			granted <- nil
			return
		}
		granted <- d.lease(g, req)
	}()
	drivertest.Receive(t, sent, "the first request is not sent")

	// To the leader, and back.
	s := firstSession(d)
	link.Redirect(e.servers[leader].Addr)
	var own *lease
	if alone {
		eventually(patience, func() bool { return s.current() })
		time.Sleep(100 * time.Millisecond) // it asks what nobody answers, or is answered by a leader that leads nobody
	} else {
		own = <-granted
	}
	again := e.outs[follower].setAfter(string(sessionBytes(s.sessionID())), holding)
	link.Redirect(e.servers[follower].Addr)
	drivertest.Receive(t, again, "the client does not come back")
	e.outs[(leader+2)%3].heal()
	e.outs[follower].heal()
	if alone {
		own = <-granted
	}
	if own == nil {
		t.FailNow()
	}
	lowest := func() bool {
		all, _ := readLine(childrenOf(t, other, name), 0)
		return len(all) == 1 && all[0].name == own.n.name
	}
	if !eventually(patience, lowest) {
		t.Errorf("there are the nodes %q; want %q", childrenOf(t, other, name), own.n.name)
	}
	release(t, own)
	var next *participant.Lease
	if !eventually(patience, func() (free bool) {
		var err error
		next, err = other.TryAcquire(t.Context(), request(name, ttl))
		if err != nil && !errors.Is(err, driver.ErrHeld) {
			t.Error(err)
		}
		return err == nil
	}) {
		t.Fatalf("the name is held by nobody's nodes %q", childrenOf(t, other, name))
	}
	release(t, next)
	_, stat, err := firstSession(other).conn.Get(other.wire.dir(name))
	must(t, err)
	// Four nodes were made and deleted; more is the old request.
	late := int(stat.Cversion)/2 - 4
	t.Logf("%s: alone %v, %d old requests were carried out late", name, alone, late)
	return late
}

// current reports whether the last connection has been answered.
func (s *session) current() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link != nil && s.link.ready.Load()
}

func sessionBytes(id int64) []byte {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(id >> (56 - 8*i))
	}
	return b
}

// TestTwins: two requests for a lease were carried out, and the answers to both were
// lost. The lease takes the lower node, and deletes the other one. It takes neither a node for which it has sent a
// deletion nor a node of another session.
func TestTwins(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	e := new(eater)
	const ttl = 20 * time.Second
	d, other := e.open(t, s, ttl), openURL(t, s.url(), ttl)
	for _, name := range []string{"twins", "twins/going"} {
		req := request(name, ttl)
		release(t, take(t, d, request(name, ttl)))
		one, key := firstSession(d), d.wire.dir(name)+"/"+nodePrefix(req.Lease, storekit.SharingOf(req))
		first, err := one.conn.Create(key, nil, zk.FlagEphemeralSequential, d.wire.acl)
		must(t, err)
		theirs, err := firstSession(other).conn.Create(key, nil, zk.FlagEphemeralSequential, d.wire.acl)
		must(t, err)
		if names, err := one.nodesOf(t.Context(), key); err != nil || len(names) != 1 || d.wire.dir(name)+"/"+names[0] != first {
			t.Errorf("%s: the session has %q, %v; want %q, and not %q of another session", name, names, err, first, theirs)
		}
		must(t, firstSession(other).conn.Delete(theirs, -1))
		going := name == "twins/going"
		if going && !one.stray(key, first) {
			t.Fatal("a node that nobody has is no stray")
		}
		e.eat(opCreate, 0)
		g, err := d.Acquire(t.Context(), req)
		if err != nil {
			t.Fatalf("%s: %v; want a grant", name, err)
		}
		nodes := childrenOf(t, other, name)
		if len(nodes) != 1 || (d.wire.dir(name)+"/"+nodes[0] == first) == going {
			t.Errorf("%s: there are the nodes %q; the first was %q", name, nodes, first)
		}
		if n := d.lease(g, req).n; len(nodes) == 1 && n.name != nodes[0] {
			t.Errorf("%s: the lease has %q; there are the nodes %q", name, n.name, nodes)
		}
		release(t, g)
		release(t, take(t, other, request(name, ttl)))
	}
}
