// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestOddNode: a node that cannot be one of N independent masters, or has the record of another
// node, counts as down for clients of before and for new ones. A quorum of such nodes is an error that says why.
func TestOddNode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		odd   func(odd, good *redis)
		alike func(f fleet) fleet // what the client names
		want  string              // in the log
	}{
		{"replica", func(odd, good *redis) { replicaOf(odd, good) }, nil, "READONLY"},
		{"copy of another node", func(odd, good *redis) { replicaOf(odd, good); odd.do("replicaof", "no", "one") }, nil, "it has the record of 127.0.0.1"},
		{"another store", func(odd, good *redis) {
			e := parseEntry(good.do("get", nodesKey))
			e.store = "another"
			odd.do("set", nodesKey, e.text())
		}, nil, "it belongs to another store"},
		{"an older record that does not fit", func(odd, good *redis) {
			e := parseEntry(odd.do("get", nodesKey))
			e.set = newSet(2, []string{e.self, "x", "y"})
			odd.do("set", nodesKey, e.text())
		}, nil, "another set of nodes than the others"},
		{"one server twice", func(odd, good *redis) {}, func(f fleet) fleet {
			again := &redis{Redis: servers.NewRedis(""), t: f[1].t}
			again.Addr = strings.Replace(f[1].Addr, "127.0.0.1", "localhost", 1)
			return fleet{f[0], f[1], again}
		}, "it is the same server as 127.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log servers.Output
			opts := withMaxTTL(2 * time.Second)
			f := startFleet(t, 3, opts)
			before := openDriver(t, f.url(), opts)
			use := func(d *store, what string) {
				t.Helper()
				var err error
				if !eventually(patience, func() bool { // a good node may be silent for a moment, on a busy machine
					var g *grant
					if g, err = d.TryAcquire(t.Context(), lasting("job", time.Second)); err == nil {
						g.Release(t.Context())
					}
					return err == nil
				}) {
					t.Fatalf("%s: %v", what, err)
				}
			}
			use(before, "three good nodes")
			own := ""
			if !eventually(patience, func() bool {
				e := parseEntry(f[2].do("get", nodesKey))
				own = e.self
				return e.state == isOpen
			}) {
				t.Fatal("the third node has no record")
			}
			c.odd(f[2], f[0])
			use(before, "a client of before, beside an odd node")
			named := f
			if c.alike != nil {
				named = c.alike(f)
			}
			logged := *opts
			logged.Logger = slog.New(slog.NewTextHandler(&log, nil))
			d, err := connect(t.Context(), named.url(), &logged)
			if err != nil {
				t.Fatalf("Open beside an odd node: %v", err)
			}
			defer d.Close()
			for range 3 {
				use(d, "a new client, beside an odd node")
			}
			if !strings.Contains(log.String(), c.want) {
				t.Errorf("the log says\n%s\nwant %q", log.String(), c.want)
			}
			odd := 0
			for _, f := range d.Examine(t.Context()) {
				if f.Check == "node" && f.Level == driver.Problem && f.Do != "" {
					odd++
				}
			}
			if odd != 1 {
				t.Errorf("doctor finds %d odd nodes: %+v", odd, d.Examine(t.Context()))
			}
			if c.alike != nil {
				return
			}
			f[2].do("replicaof", "no", "one")
			f[2].do("flushall")
			if !eventually(patience, func() bool {
				use(before, "a client of before, beside an empty node")
				e := parseEntry(f[2].do("get", nodesKey))
				return e.self == own && e.state == isOpen
			}) {
				t.Errorf("the node that was emptied has %q; want its own record", f[2].do("get", nodesKey))
			}
		})
	}
}

const nodesKey = "pawl:redlock:epoch" + nodesSuffix

// replicaOf makes a server a replica, with the data of its master.
func replicaOf(r, master *redis) {
	host, port, _ := strings.Cut(master.Addr, ":")
	r.do("replicaof", host, port)
	if !eventually(patience, func() bool { return strings.Contains(r.do("info", "replication"), "master_link_status:up") }) {
		r.t.Error("the replica is not in step")
	}
}

// TestOddQuorum: too few good nodes are left, and the error says what is wrong with the others.
func TestOddQuorum(t *testing.T) {
	t.Parallel()
	opts := withMaxTTL(2 * time.Second)
	f := startFleet(t, 3, opts)
	before := openDriver(t, f.url(), opts)
	release(t, get(t, before, lasting("job", time.Second)))
	replicaOf(f[1], f[0])
	replicaOf(f[2], f[0])
	if _, err := connect(t.Context(), f.url(), opts); !errors.Is(err, ErrNotIndependent) || !strings.Contains(err.Error(), f[1].Addr) {
		t.Errorf("Open with two replicas = %v; want ErrNotIndependent", err)
	}
	f[1].do("replicaof", "no", "one")
	f[2].do("replicaof", "no", "one")
	d := openDriver(t, f.url(), opts)
	if _, err := d.TryAcquire(t.Context(), lasting("job", time.Second)); !errors.Is(err, driver.ErrDisagree) || !strings.Contains(err.Error(), "it has the record of "+f[0].Addr) {
		t.Errorf("TryAcquire with two copies of a node = %v; want ErrDisagree, and why", err)
	}
}

// TestTwoSpellings: clients that use the nodes first, at the same time, may name them by different addresses. They found one store.
func TestTwoSpellings(t *testing.T) {
	t.Parallel()
	for range 5 {
		opts := withMaxTTL(5 * time.Second)
		f := startFleet(t, 3, opts)
		urls := []string{f.url(), strings.ReplaceAll(f.url(), "127.0.0.1", "localhost")}
		errs := make(chan error)
		for _, url := range urls {
			go func() {
				d, err := connect(t.Context(), url, opts)
				if err == nil {
					defer d.Close()
					var g *grant
					if g, err = d.Acquire(t.Context(), lasting("job", 5*time.Second)); err == nil {
						err = g.Release(t.Context())
					}
				}
				errs <- err
			}()
		}
		for range urls {
			if err := <-errs; err != nil {
				t.Errorf("a client that uses the nodes first: %v", err)
			}
		}
	}
}

// TestRefusedTooSoon: a client has just seen nodes without a record, which another client, with other addresses, has led on
// since then. It is not refused for that.
func TestRefusedTooSoon(t *testing.T) {
	t.Parallel()
	opts := withMaxTTL(5 * time.Second)
	f := startFleet(t, 3, opts)
	d := openDriver(t, f.url(), opts)
	other := openDriver(t, strings.ReplaceAll(f.url(), "127.0.0.1", "localhost"), opts)
	g := await(t, other, lasting("another", 5*time.Second))
	if _, err := d.members[1].Node.(*redisNode).record(t.Context(), "", entry{}, 0); err != nil {
		t.Fatal(err)
	}
	d.roster.learn(0, entry{})
	d.roster.learn(2, entry{})
	if _, err := d.TryAcquire(t.Context(), lasting("job", 5*time.Second)); err != nil {
		t.Error(err)
	}
	release(t, g)
}

// TestFirstUse: two clients with different nodes use them first, at the same time. One of them at most gets anything.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	for range 5 {
		opts := withMaxTTL(5 * time.Second)
		f := startFleet(t, 5, withMaxTTL(5*time.Second))
		grants := make(chan *grant)
		for _, url := range []string{f[:3].url(), f.url()} {
			d := openDriver(t, url, opts)
			go func() {
				g, _ := d.Acquire(t.Context(), lasting("job", 5*time.Second))
				grants <- g
			}()
		}
		if a, b := <-grants, <-grants; a != nil && b != nil {
			t.Fatal("clients with different nodes have one name")
		}
	}
}

// TestFirstUseGoesOn: a client begins to use nodes where another one got no further than to keep the set at some of
// them. Each node gets the id that it has in that set.
func TestFirstUseGoesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		kept int // nodes
		last string
	}{
		{"one was down", 2, ""},
		{"claims have lapsed", 1, "c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			opts := withMaxTTL(5 * time.Second)
			f := startFleet(t, 3, opts)
			at := map[string]string{"a": f[0].Addr, "b": f[1].Addr, cmp.Or(c.last, "@"+f[2].Addr): f[2].Addr}
			set := newSet(2, slices.Collect(maps.Keys(at)))
			var addrs []string
			for _, id := range set.ids {
				addrs = append(addrs, at[id])
			}
			for i := range c.kept {
				e := entry{self: "ab"[i : i+1], store: storeID(set), gen: 1, set: set, state: isKept, addrs: addrs}
				f[i].do("set", nodesKey, e.text())
			}
			d := openDriver(t, f.url(), opts)
			release(t, await(t, d, lasting("job", 5*time.Second)))
			for _, n := range f {
				e := parseEntry(n.do("get", nodesKey))
				if e.state != isOpen || !e.set.equal(set) || at[e.self] != n.Addr {
					t.Errorf("%s has recorded %q; want it open, with the id that it has in the set", n.Addr, e.raw)
				}
			}
		})
	}
}

// TestFirstUseAtOnce: another client with the same nodes, which gave them other ids, has begun to use one of them. That is
// a matter of time, and not of the nodes that are named.
func TestFirstUseAtOnce(t *testing.T) {
	t.Parallel()
	opts := withMaxTTL(5 * time.Second)
	opts.ConnectTimeout = time.Second
	f := startFleet(t, 3, opts)
	addrs := []string{f[0].Addr, f[1].Addr, f[2].Addr}
	for i, ids := range [][]string{{"a", "b", "c"}, {"d", "e", "f"}} {
		set := newSet(2, ids)
		e := entry{self: ids[i], store: storeID(set), gen: 1, set: set, state: isKept, addrs: addrs}
		f[i].do("set", nodesKey, e.text())
	}
	d := openDriver(t, f.url(), opts)
	if _, err := d.TryAcquire(t.Context(), lasting("job", 5*time.Second)); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrDisagree) {
		t.Errorf("TryAcquire = %v; want ErrUnavailable", err)
	}
}
