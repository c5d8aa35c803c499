// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"context"
	"errors"
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// soon is less than the time after which a client looks again unasked.
const soon = 10 * time.Second

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
	d := openThrough(t, link, options(ttl)).store
	t.Cleanup(func() { d.Close() })
	busy := openURL(t, e.url(follower), ttl)
	other := openURL(t, e.url(leader), ttl)
	work := make([]any, 3000) // for the leader
	for i := range work {
		work[i] = &zk.CheckVersionRequest{Path: other.dir(name + "/busy"), Version: -1}
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
func oldCreateComesLate(t *testing.T, e *ensemble, link *drivertest.Link, d, other *store, delay func(), name string, alone bool) int {
	t.Helper()
	const ttl = 20 * time.Second
	leader := e.leader(t)
	follower := (leader + 1) % 3
	release(t, take(t, other, request(name, ttl))) // the node of the name is there now
	link.Redirect(e.servers[follower].Addr)
	release(t, take(t, d, request(name, ttl)))

	// The leader has much to do before it comes to the old request.
	held := e.outs[follower].setAfter("busy", holding)
	delay()
	wait := func(what string, c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(patience):
			t.Fatalf("%s does not happen", what)
		}
	}
	wait("other work", held)
	if alone {
		e.outs[(leader+2)%3].set(holding)
	}
	sent := e.outs[follower].setAfter(d.dir(name)+"/", holding)
	req := request(name, ttl)
	granted := make(chan *grant, 1)
	go func() {
		g, err := d.TryAcquire(t.Context(), req)
		if err != nil {
			t.Errorf("TryAcquire = %v; want a grant", err)
			granted <- nil
			return
		}
		granted <- g.(*grant)
	}()
	wait("the first request", sent)

	// To the leader, and back.
	s := firstSession(d)
	link.Redirect(e.servers[leader].Addr)
	var g *grant
	if alone {
		eventually(patience, func() bool { return s.current() })
		time.Sleep(100 * time.Millisecond) // it asks what nobody answers, or is answered by a leader that leads nobody
	} else {
		g = <-granted
	}
	again := e.outs[follower].setAfter(string(sessionBytes(s.sessionID())), holding)
	link.Redirect(e.servers[follower].Addr)
	wait("coming back", again)
	e.outs[(leader+2)%3].heal()
	e.outs[follower].heal()
	if alone {
		g = <-granted
	}
	if g == nil {
		t.FailNow()
	}
	lowest := func() bool {
		all, _ := readLine(childrenOf(t, other, name))
		return len(all) == 1 && all[0].name == g.n.name
	}
	if !eventually(soon, lowest) {
		t.Errorf("there are the nodes %q; want %q", childrenOf(t, other, name), g.n.name)
	}
	release(t, g)
	var next driver.Grant
	if !eventually(soon, func() (free bool) {
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
	_, stat, err := firstSession(other).conn.Get(other.dir(name))
	if err != nil {
		t.Fatal(err)
	}
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

// TestTwins: two requests of an attempt were carried out, and the answers to both were
// lost. The lower node is that of the attempt, and the other one goes.
func TestTwins(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	e := startEater(t, s.Addr)
	const ttl = 20 * time.Second
	d, other := openURL(t, e.url(), ttl), openURL(t, s.url(), ttl)
	for name, acquire := range map[string]func(context.Context, *driver.Request) (driver.Grant, error){"twins/try": d.TryAcquire, "twins/wait": d.Acquire} {
		req := request(name, ttl)
		release(t, take(t, d, request(name, ttl)))
		first, err := firstSession(d).conn.Create(d.dir(name)+"/"+nodePrefix(req.Lease, kind{}), nil, zk.FlagEphemeralSequential, d.acl)
		if err != nil {
			t.Fatal(err)
		}
		e.eat(opCreate, 0)
		g, err := acquire(t.Context(), req)
		if err != nil {
			t.Fatalf("%s: %v; want a grant", name, err)
		}
		if nodes := childrenOf(t, other, name); len(nodes) != 1 || d.dir(name)+"/"+nodes[0] != first {
			t.Errorf("%s: there are the nodes %q; want %q", name, nodes, first)
		}
		release(t, g)
		release(t, take(t, other, request(name, ttl)))
	}
}

// TestRepeatedMeanwhile: two requests of an attempt that has ended were carried out late. While
// their nodes are being deleted the attempt is repeated: it takes none that is about to go,
// and the one that it takes is left to it.
func TestRepeatedMeanwhile(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	e := startEater(t, server.Addr)
	const ttl = 20 * time.Second
	d, other := openURL(t, e.url(), ttl), openURL(t, server.url(), ttl)
	strays := func(name string) (*session, *driver.Request, *node, []string) {
		t.Helper()
		req := request(name, ttl)
		release(t, take(t, d, request(name, ttl))) // the node of the name is there now
		s := firstSession(d)
		var names []string
		for range 2 {
			p, err := s.conn.Create(d.dir(name)+"/"+nodePrefix(req.Lease, kind{}), nil, zk.FlagEphemeralSequential, d.acl)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, path.Base(p))
		}
		n := s.newNode(req)
		s.suspect(n)
		return s, req, n, names
	}
	has := func(g *grant, req *driver.Request, want string) {
		t.Helper()
		if nodes := childrenOf(t, other, req.Name); g.n.name != want || len(nodes) != 1 || nodes[0] != want {
			t.Errorf("%s: the lease has %q of the nodes %q; want %q alone", req.Name, g.n.name, nodes, want)
		}
		release(t, g)
	}

	// The first is about to be deleted, and the attempt is repeated before the second is.
	s, req, n, names := strays("meanwhile/begins")
	seen, goOn := e.hold(t, opDelete)
	n.settle("")
	poke(s.cleaning)
	select {
	case <-seen:
	case <-time.After(patience):
		t.Fatal("nobody deletes the nodes of old requests")
	}
	granted := make(chan *grant, 1)
	go func() {
		g, err := d.TryAcquire(t.Context(), req)
		if err != nil {
			t.Errorf("TryAcquire = %v; want a grant", err)
			close(granted)
			return
		}
		granted <- g.(*grant)
	}()
	repeated := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return n.doubt.open > 0
	}
	if !eventually(patience, repeated) {
		t.Fatal("the attempt is not repeated")
	}
	goOn()
	g := <-granted
	if g == nil {
		t.FailNow()
	}
	has(g, req, names[1])

	// The deletion of the first has been sent, and is carried out last.
	s, req, n, names = strays("meanwhile/late")
	n.settle("")
	if !s.stray(n.doubt, names[0]) {
		t.Fatal("a node that nobody has is no stray")
	}
	g = take(t, d, req)
	if err := s.conn.Delete(d.dir(req.Name)+"/"+names[0], -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	has(g, req, names[1])
}

// TestReleaseGoesOn: the servers cannot be told of a release, and nobody asks again. The
// session lives on, so it is the client that does, until it is certain.
func TestReleaseGoesOn(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	const name, ttl = "goes-on", time.Minute
	link := drivertest.NewLink(t, s.Addr)
	d, other := openThrough(t, link, options(ttl)).store, openURL(t, s.url(), ttl)
	t.Cleanup(func() { d.Close() })
	g := take(t, d, request(name, ttl))
	link.Set(drivertest.BlackHole)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := g.Release(ctx); err == nil {
		t.Error("Release = nil although nobody was told")
	}
	link.Set(drivertest.Healthy)
	if !eventually(soon, func() bool { return len(childrenOf(t, other, name)) == 0 }) {
		t.Errorf("left are the nodes %q", childrenOf(t, other, name))
	}
}
