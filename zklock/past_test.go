// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// TestBorn: what the name's node tells of the transaction that made a lease's node is
// true, also while others make and delete nodes beside it; and it does tell.
func TestBorn(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ds := []*client{openURL(t, s.url(), 5*time.Second), openURL(t, s.url(), 5*time.Second)}
	var known atomic.Int32
	work := func(d *client, name string, n int) {
		for range n {
			req := request(name, 5*time.Second)
			req.Shared = true
			g, err := d.TryAcquire(t.Context(), req)
			if err != nil {
				t.Errorf("TryAcquire = %v", err)
				return
			}
			own := d.lease(g, req)
			if _, ok := own.n.born(); ok {
				known.Add(1)
			}
			_, stat, err := own.n.s.conn.Get(own.n.path())
			if err != nil || stat.Czxid != own.n.czxid || g.Token() != tokenOf(stat.Czxid) {
				t.Errorf("token %d of transaction %#x; the node says %+v, %v", g.Token(), own.n.czxid, stat, err)
			}
			if err := g.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
		}
	}
	const alone = 50
	work(ds[0], "alone", alone)
	if n := known.Load(); n < alone*9/10 {
		t.Errorf("it was known of %d nodes of %d; want all but the first, and those whose listing was early", n, alone)
	}
	for _, crowd := range [][]*client{{ds[0], ds[0]}, {ds[0], ds[1]}, {ds[0], ds[0], ds[1], ds[1]}} {
		known.Store(0)
		var all sync.WaitGroup
		for _, d := range crowd {
			all.Go(func() { work(d, "crowd", 300) })
		}
		all.Wait()
		t.Logf("in a crowd of %d it was known of %d nodes of %d", len(crowd), known.Load(), 300*len(crowd))
	}
}

// TestBornRefuses: one change more, or another node of the name, and nothing is known.
func TestBornRefuses(t *testing.T) {
	before := past{czxid: 5, cversion: 7, pzxid: 20}
	for _, c := range []struct {
		past, seen past
		known      bool
	}{
		{before, past{5, 9, 22}, true},
		{before, past{5, 10, 23}, false}, // another has come or gone
		{before, past{5, 8, 21}, false},  // cannot be
		{before, past{21, 9, 22}, false}, // the name's node was made anew
		{before, past{5, 9, 20}, false},  // cannot be
		{past{}, past{0, 2, 22}, false},  // nothing is known of before
	} {
		n := &node{past: c.past, seen: c.seen}
		if czxid, known := n.born(); known != c.known || known && czxid != c.seen.pzxid {
			t.Errorf("after %+v, with %+v: born = %d, %v; want it to be known: %v", c.past, c.seen, czxid, known, c.known)
		}
	}
}

// TestPastsAreBounded: a session does not remember all names there ever were.
func TestPastsAreBounded(t *testing.T) {
	s := &session{pasts: make(map[string]past)}
	for i := range 3 * maxPasts {
		s.keepPast(string(rune(i)), past{czxid: 1})
	}
	if len(s.pasts) > maxPasts {
		t.Errorf("%d names are remembered; want %d at most", len(s.pasts), maxPasts)
	}
}

// TestRequests: a lease that is free costs three requests, as making a node, listing and
// deleting it does, and no news.
func TestRequests(t *testing.T) {
	t.Parallel()
	const leases = 200
	s := startServer(t)
	d := openURL(t, s.url(), time.Minute)
	release(t, take(t, d, request("deploy", time.Minute)))
	began, received, sent := driver.Now(), s.count(t, "zk_packets_received"), s.count(t, "zk_packets_sent")
	for range leases {
		release(t, take(t, d, request("deploy", time.Minute)))
	}
	received, sent = s.count(t, "zk_packets_received")-received, s.count(t, "zk_packets_sent")-sent
	// Package zk and keep ask something now and then. Where a listing comes before its node
	// there are two requests more.
	most := 3*leases + leases/4 + 10*int(driver.Now().Sub(began)/time.Second+1)
	t.Logf("%d leases: %v requests, %v answers", leases, received, sent)
	if int(received) > most || int(sent) > most {
		t.Errorf("%d leases cost %v requests and %v answers; want %d at most", leases, received, sent, most)
	}
}

// TestBornBesideARelease: a node is made while the last one of its client is there still,
// and that is deleted after it. These are two changes, too, but the last of them is the
// deletion.
func TestBornBesideARelease(t *testing.T) {
	t.Parallel()
	d := openURL(t, startServer(t).url(), 5*time.Second)
	reader := func() *driver.Request {
		req := request("deploy", 5*time.Second)
		req.Shared = true
		return req
	}
	last := take(t, d, reader())
	req := reader()
	n := firstSession(d).nodeFor(req)
	if err := n.make(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	release(t, last)
	n.early = nil // look again
	if _, _, err := n.place(t.Context()); err != nil {
		t.Fatal(err)
	}
	if czxid, known := n.born(); known {
		_, stat, err := n.s.conn.Get(n.path())
		t.Errorf("it is known that transaction %#x made the node, which says %+v, %v; want it not to be known", czxid, stat, err)
	}
}

// TestEarlyListing: the listing that was asked for with a node came before it.
func TestEarlyListing(t *testing.T) {
	t.Parallel()
	d := openURL(t, startServer(t).url(), 5*time.Second)
	req := request("deploy", 5*time.Second)
	n := firstSession(d).nodeFor(req)
	if err := n.make(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	n.early = make(chan listing, 1)
	n.early <- listing{names: []string{}, stat: new(zk.Stat)}
	if l, i, err := n.place(t.Context()); err != nil || i != 0 || len(l) != 1 {
		t.Errorf("place = %v, %d, %v; want the node to be the first", l, i, err)
	}
}

// TestBrokenBeforeWatched: a lease whose node nobody had to read is broken at once. Its
// holder is told, a little later.
func TestBrokenBeforeWatched(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	a, b := openURL(t, s.url(), time.Minute), openURL(t, s.url(), time.Minute)
	if !eventually(patience, func() bool { // a listing may come before its node
		release(t, take(t, a, request("deploy", time.Minute)))
		req := request("deploy", time.Minute)
		g := take(t, a, req)
		if _, known := g.n.born(); !known {
			release(t, g)
			return false
		}
		told := make(chan error, 1)
		g.Lease.OnLost(func(err error) { told <- err })
		if err := b.Break(t.Context(), "deploy", req.Lease, &driver.Holder{Who: "operator"}, "it hangs"); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-told:
			var lost *driver.LostError
			if !errors.As(err, &lost) || lost.Reason != driver.Broken || lost.Why != "it hangs" {
				t.Errorf("the holder was told %v; want who has broken the lease, and why", err)
			}
		case <-time.After(patience):
			t.Error("the holder was not told")
		}
		return true
	}) {
		t.Error("it is never known which transaction made a node")
	}
}
