// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/participant"
)

func request(name string, ttl time.Duration) *driver.Request {
	return &driver.Request{Name: name, Lease: rand.Text(), TTL: ttl, Holder: &driver.Holder{Who: "test"}}
}

// client is a participant with its wire.
type client struct {
	*participant.Participant
	wire *store
}

func clientOn(d driver.Store) *client {
	return &client{participant.New(d, participant.Options{}), d.(*store)}
}

// lease is a grant with its node.
type lease struct {
	*participant.Lease
	n *node
}

func (c *client) lease(g *participant.Lease, req *driver.Request) *lease {
	ref := refOf(req)
	ref.Lease = g.ID() // the participant may have asked again, with another id
	return &lease{g, nodeOf(c.wire, ref)}
}

// nodeOf returns the node of a lease, or nil if there is none in a session that lives.
func nodeOf(s *store, ref driver.Ref) *node {
	key := s.dir(ref.Name) + "/" + nodePrefix(ref.Lease, storekit.Sharing{Shared: ref.Shared, Slots: ref.Slots})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.sessions {
		at.mu.Lock()
		n := at.nodes[key]
		at.mu.Unlock()
		if n != nil {
			return n
		}
	}
	return nil
}

func refOf(req *driver.Request) driver.Ref {
	return driver.Ref{Name: req.Name, Lease: req.Lease, Shared: req.Shared, Slots: req.Slots}
}

func take(t testing.TB, c *client, req *driver.Request) *lease {
	t.Helper()
	g, err := c.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatalf("TryAcquire = %v; want a grant", err)
	}
	return c.lease(g, req)
}

// release gives a lease back, which takes five seconds at a time at most.
func release(t testing.TB, g interface{ Release(context.Context) error }) {
	t.Helper()
	var err error
	eventually(patience, func() bool {
		err = g.Release(context.WithoutCancel(t.Context()))
		return !errors.Is(err, context.DeadlineExceeded)
	})
	if err != nil {
		t.Errorf("Release = %v; want nil", err)
	}
}

// waiting is an Acquire in a goroutine of its own.
type waiting struct {
	*drivertest.Waiting
	client *client
	req    *driver.Request
}

// wait starts an Acquire and returns when its node is in the queue.
func wait(t testing.TB, s *client, req *driver.Request) *waiting {
	t.Helper()
	before := len(childrenOf(t, s, req.Name))
	return &waiting{drivertest.Wait(t, s.Participant, req, func() bool { return len(childrenOf(t, s, req.Name)) > before }), s, req}
}

func (w *waiting) granted(t testing.TB) *lease {
	t.Helper()
	return w.client.lease(w.Granted(t, patience), w.req)
}

// childrenOf returns what is in the node of a name.
func childrenOf(t testing.TB, c *client, name string) []string {
	t.Helper()
	s := c.wire
	n, err := s.inspectSession(t.Context())
	must(t, err)
	n.conn.Sync(s.root)
	names, _, _ := n.conn.Children(s.dir(name))
	return names
}

func firstSession(c *client) *session {
	s := c.wire
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.sessions[purpose{s.ttl, true}], s.sessions[purpose{ttl: s.ttl}]) // that of requests, if there is one
}

// TestTokensAcrossParents: the numbers of the nodes begin anew when the servers have
// removed the node of a name; the tokens do not.
func TestTokensAcrossParents(t *testing.T) {
	t.Parallel()
	s := startServer(t, quickSweep)
	d := openURL(t, s.url(), time.Minute)
	last := uint64(0)
	for round := range 3 {
		for range 3 {
			g := take(t, d, request("deploy", time.Minute))
			if g.Token() <= last {
				t.Errorf("token %d after %d", g.Token(), last)
			}
			last = g.Token()
			if c, ok := parseChild(g.n.name); !ok || c.seq > 8 {
				t.Errorf("round %d: the node is %s: its parent was not removed", round, g.n.name)
			}
			if _, stat, err := firstSession(d).conn.Exists(g.n.path()); err != nil || g.Token()>>tokenBits > uint64(stat.Czxid) {
				t.Errorf("token %d of a node that transaction %#x has made, %v: the next parent may be made before", g.Token(), stat.Czxid, err)
			}
			ends := openURL(t, s.url(), time.Minute) // one transaction deletes its nodes
			wait(t, ends, request("deploy", time.Minute))
			wait(t, ends, request("deploy", time.Minute))
			ends.wire.Close()
			release(t, g)
		}
		drivertest.Until(t, "the servers do not remove the empty node", func() bool {
			found, _, err := firstSession(d).conn.Exists(d.wire.dir("deploy"))
			return err == nil && !found
		})
	}
}
