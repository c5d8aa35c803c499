// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// Kinds of requests, as the protocol numbers them.
const (
	opCreate = 1
	opDelete = 2
	opList   = 12
	opMulti  = 14
)

// eater is a network on which the answer to the next request of a kind is lost. The connection breaks then.
type eater struct {
	op     atomic.Int32 // of the next request whose answer is lost; 0: none
	skip   atomic.Int32 // so many of the kind before
	eaten  atomic.Int32
	multis atomic.Int32 // requests of the kind opMulti
	fresh  atomic.Bool  // a client that connects again is taken for somebody new
}

// eat has the answer to the next request of the kind lost, after skip of them.
func (e *eater) eat(op, skip int32) {
	e.skip.Store(skip)
	e.op.Store(op)
}

// open returns a participant of the server on this network.
func (e *eater) open(t testing.TB, s *server, ttl time.Duration) *client {
	t.Helper()
	o := options(ttl)
	o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &eaterConn{Conn: conn, e: e}, err
	}
	return openWith(t, s.url(), o)
}

// eaterConn is a connection on the network of an eater. Package zk writes each request at once.
type eaterConn struct {
	net.Conn
	e      *eater
	began  bool
	hungry atomic.Bool
}

func (c *eaterConn) Write(b []byte) (int, error) {
	switch op := int32(binary.BigEndian.Uint32(b[8:])); {
	case !c.began && c.e.fresh.Load():
		// The timeout stays; the last transaction seen, the session and its password go.
		b = bytes.Clone(b)
		clear(b[8:16])
		clear(b[20:28])
		clear(b[32:48])
	case !c.began:
	case op == c.e.op.Load() && c.e.skip.Add(-1) < 0 && c.e.op.CompareAndSwap(op, 0):
		c.e.eaten.Add(1)
		c.hungry.Store(true)
	case op == opMulti:
		c.e.multis.Add(1)
	}
	c.began = true
	return c.Conn.Write(b)
}

func (c *eaterConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.hungry.Load() {
		c.Close()
		return 0, io.EOF
	}
	return n, err
}

// TestLostAnswerToCreate: the connection breaks when the node has been made, and
// before the client knows. There is one node afterwards, and none after cancel.
func TestLostAnswerToCreate(t *testing.T) {
	t.Parallel()
	const name, ttl = "lost-create", time.Minute
	s := sharedServer(t)
	e := new(eater)
	d, other := e.open(t, s, ttl), openURL(t, s.url(), ttl)
	release(t, take(t, d, request(name, ttl))) // its parent is there
	e.eat(opCreate, 0)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	g, err := d.Acquire(ctx, request(name, ttl))
	cancel()
	if err != nil {
		t.Fatalf("Acquire = %v; want a grant", err)
	}
	if n := childrenOf(t, other, name); len(n) != 1 {
		t.Errorf("there are the nodes %q; want one", n)
	}
	release(t, g)
	// The same, but the caller leaves in between: sooner or later.
	for i := range 12 {
		acquire := d.TryAcquire
		if i%2 == 0 {
			acquire = d.Acquire
		}
		e.eat(opCreate, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
		g, err := acquire(ctx, request(name, ttl))
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, driver.ErrUncertain) {
			t.Errorf("%v; want the context's error, or ErrUncertain", err)
		}
		if g != nil {
			release(t, g)
		}
		e.eat(0, 0)
		var n []string
		if !eventually(patience, func() bool { n = childrenOf(t, other, name); return len(n) == 0 }) {
			t.Fatalf("there are the nodes %q after cancel; want none", n)
		}
	}
	if e.eaten.Load() < 2 {
		t.Errorf("%d answers were lost", e.eaten.Load())
	}
}

// TestSilentNewSession: a server gives whoever connects again a new session without
// saying that the old one has ended, as some that speak the protocol do. The
// leases of the old one are lost.
func TestSilentNewSession(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	e := new(eater)
	const ttl = 20 * time.Second // far longer than it takes to find out
	d := e.open(t, s, ttl)
	c := clientOf(t, d.wire, ttl)
	// A renewal would tell, too.
	l, err := c.TryAcquire(t.Context(), "silent", pawl.NoRenew())
	must(t, err)
	if _, err := c.TryAcquire(t.Context(), "renewed"); err != nil {
		t.Fatal(err)
	}
	old := firstSession(d)
	e.fresh.Store(true)
	e.eat(opMulti, 0) // breaks the connection
	select {
	case <-l.Done():
	case <-time.After(ttl - time.Second):
		t.Errorf("the lease is held on, in the state %v", l.State())
	}
	if !old.isDead() {
		t.Error("the session is taken for the old one")
	}
	next, err := c.Acquire(t.Context(), "silent")
	must(t, err)
	next.Release(t.Context())
}

// TestLostAnswerToDelete: the connection breaks when the node has been deleted. The
// lease is released all the same, and the next holder is not harmed.
func TestLostAnswerToDelete(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	e := new(eater)
	d, other := e.open(t, s, time.Minute), openURL(t, s.url(), time.Minute)
	const name = "lost-delete"
	for range 3 {
		g := take(t, d, request(name, time.Minute))
		w := wait(t, other, request(name, time.Minute))
		e.eat(opDelete, 0)
		release(t, g)
		next := w.granted(t)
		release(t, g)
		if n := childrenOf(t, other, name); len(n) != 1 {
			t.Errorf("there are the nodes %q; want that of the next holder", n)
		}
		release(t, next)
	}
	if n := e.eaten.Load(); n != 3 {
		t.Errorf("%d answers were lost; want 3", n)
	}
}

// TestManyRenewals: however many leases a client has, one request renews them.
func TestManyRenewals(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	e := new(eater)
	const ttl = time.Minute
	d := e.open(t, s, ttl)
	grants := make([]*lease, 200)
	for i := range grants {
		grants[i] = take(t, d, request("many/"+strconv.Itoa(i), ttl))
	}
	victim := grants[7]
	must(t, firstSession(openURL(t, s.url(), ttl)).conn.Delete(victim.n.path(), -1))
	before := e.multis.Load()
	var all sync.WaitGroup
	for _, g := range grants {
		all.Go(func() {
			_, err := g.Renew(t.Context(), ttl)
			if lost := errors.Is(err, driver.ErrLost); lost != (g == victim) || err != nil && !lost {
				t.Errorf("Renew = %v", err)
			}
		})
	}
	all.Wait()
	if n := e.multis.Load() - before; n > int32(len(grants)/4) {
		t.Errorf("%d requests for %d renewals", n, len(grants))
	}
}

// TestWatchesDoNotAddUp: a watch cannot be taken back. However often a client tries
// while a lock is held, it has one on it.
func TestWatchesDoNotAddUp(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	a, b := openURL(t, s.url(), time.Minute), openURL(t, s.url(), time.Minute)
	g := take(t, a, request("watched", time.Minute))
	n, err := b.wire.session(t.Context(), purpose{time.Minute, true})
	must(t, err)
	for range 30 {
		w := wait(t, b, request("watched", time.Minute))
		w.GiveUp()
		drivertest.Until(t, "the waiter that has given up stays in the queue", func() bool { return len(childrenOf(t, b, "watched")) == 1 }) // it leaves in the background
		// It may have given up before it looked at the holder's node.
		looks := &node{s: n}
		must(t, n.watch(t.Context(), g.n.path(), looks))
		n.drop(looks)
	}
	// Package zk does not tell.
	watches := 0
	for it := reflect.ValueOf(n.conn).Elem().FieldByName("watchers").MapRange(); it.Next(); {
		watches += it.Value().Len()
	}
	if watches > 2 {
		t.Errorf("the client has %d watches; want that of the holder's node", watches)
	}
	release(t, g)
}

// TestBreakBeforeTheRelease: whose request to delete had no answer finds the node gone.
// That was the request, unless somebody has broken the lease before.
func TestBreakBeforeTheRelease(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	d, other := openURL(t, s.url(), time.Minute), openURL(t, s.url(), time.Minute)
	for name, end := range map[string]func(*lease, *driver.Request) error{
		"gone-by-break": func(g *lease, req *driver.Request) error {
			return other.Break(t.Context(), req.Name, req.Lease, req.Holder, "test")
		},
		"gone-by-request": func(g *lease, _ *driver.Request) error { return g.n.s.conn.Delete(g.n.path(), -1) },
	} {
		req := request(name, time.Minute)
		g := take(t, d, req)
		must(t, end(g, req))
		g.n.deleting = true // a request is under way
		if found, err := g.n.remove(t.Context()); err != nil || found != (name == "gone-by-request") {
			t.Errorf("%s: found = %t, %v", name, found, err)
		}
		_ = g.Release(t.Context())
	}
}

// TestWatchedAgain: the watch on the node of a lease, which nobody renews, has fired without a cause, as it may when
// it is set again on a new connection. The holder hears of the end of the lease all the same.
func TestWatchedAgain(t *testing.T) {
	t.Parallel()
	d := openURL(t, sharedServer(t).url(), time.Minute)
	g := take(t, d, request("watched-again", time.Minute))
	path := g.n.path()
	drivertest.Until(t, "the node is not watched", func() bool { return get(g.n.s, &g.n.link) != nil })
	g.n.s.event(zk.Event{Type: zk.EventNodeChildrenChanged, Path: path})
	must(t, g.n.s.conn.Delete(path, -1))
	hearsLoss(t, g)
}

// hearsLoss waits until the holder hears that its lease has ended.
func hearsLoss(t *testing.T, g *lease) {
	t.Helper()
	lost := make(chan error, 1)
	g.OnLost(func(err error) { lost <- err })
	drivertest.Receive(t, lost, "the holder does not hear that its node is gone")
}

// TestLostAnswerToWatch: the connection breaks before the answer comes to the request that watches the node of a lease,
// which nobody renews. The client asks again, and the holder hears of the end of the lease.
func TestLostAnswerToWatch(t *testing.T) {
	t.Parallel()
	s := sharedServer(t)
	e := new(eater)
	d, other := e.open(t, s, time.Minute), openURL(t, s.url(), time.Minute)
	const name = "lost-watch"
	release(t, take(t, other, request(name, time.Minute))) // its parent is there
	e.eat(opList, 1)                                       // after the list of the nodes
	req := request(name, time.Minute)
	held, err := d.Acquire(t.Context(), req)
	must(t, err)
	drivertest.Until(t, "the node is not watched", func() bool { return e.eaten.Load() == 1 })
	g := d.lease(held, req)
	must(t, firstSession(other).conn.Delete(g.n.path(), -1))
	hearsLoss(t, g)
}

// TestFailedWatchIsForgotten: a session keeps no watch that could not be set on the node of a lease that has ended. It
// would wait for that watch on each new connection.
func TestFailedWatchIsForgotten(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{true, false} {
		link := drivertest.NewLink(t, sharedServer(t).Addr)
		d := openURL(t, "zk://"+link.Addr(), time.Minute)
		g := take(t, d, request("failed-watch", time.Minute))
		watched(t, d, "failed-watch", line{{name: g.n.name}})
		s := g.n.s
		link.Set(drivertest.Resets)
		if early {
			s.drop(g.n)
		}
		if err := s.watchOwn(t.Context(), g.n); err == nil {
			t.Error("the node is watched over a broken connection")
		}
		if !early {
			s.drop(g.n)
		}
		s.mu.Lock()
		if len(s.watches) > 0 {
			t.Errorf("dropped early %t: the session keeps the watches %v", early, s.watches)
		}
		s.mu.Unlock()
		link.Set(drivertest.Healthy)
		release(t, g)
	}
}
