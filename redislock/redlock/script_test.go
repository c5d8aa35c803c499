// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// single opens one server as a Node.
func single(t testing.TB, s *redis, opts *Options) *redisNode {
	t.Helper()
	c := *opts
	c.AllowSingle = true
	n := dialFleet(t, fleet{s}, &c).members[0].Node.(*redisNode)
	n.roster = nil // it belongs to no set
	return n
}

// TestScriptsDoWhatNodeSays: the scripts in a server and the masters in memory, which
// follow the text of Node, answer the same to generated requests.
func TestScriptsDoWhatNodeSays(t *testing.T) {
	t.Parallel()
	opts := patient()
	opts.MaxTTL = 3 * time.Minute
	f := startFleet(t, 3, opts)
	node := single(t, f[0], opts)
	for seed := range uint64(30) {
		f[0].do("flushall")
		model := masters(1)[0]
		if seed%3 > 0 {
			fleet(f[:1]).oneByOne(t, opts)
		} else {
			model.closed = time.Now().Add(opts.MaxTTL)
		}
		compare(t, node, model, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func compare(t *testing.T, real *redisNode, model *master, seed uint64) {
	ctx := t.Context()
	r := rand.New(rand.NewPCG(seed, 0))
	names := []string{"a", "}b"}
	const leases = 4
	readers := []int{0, 2, 3}[seed/3%3] // the first of them
	lease := func() string { return fmt.Sprint("lease", r.IntN(leases)) }
	var trace []string
	same := func(op string, want, got any) {
		t.Helper()
		if fmt.Sprint(want) != fmt.Sprint(got) {
			t.Errorf("%s\n%s = %+v; want %+v", strings.Join(trace, "\n"), op, got, want)
		}
		trace = append(trace, fmt.Sprintf("%s = %+v", op, got))
	}
	for range 60 {
		name := names[r.IntN(len(names))]
		switch {
		case r.IntN(4) > 0:
			of := r.IntN(leases)
			p := nodewire.Proposal{Mode: nodewire.Mode(r.IntN(2)), Name: name, Shared: of < readers, Lease: fmt.Sprint("lease", of), Queued: r.IntN(2) == 0, Token: 1 + r.Uint64N(6), TTL: time.Duration(1+2*r.IntN(2)) * time.Minute, Record: `{"who":"x y"}`}
			want, _ := model.Propose(ctx, p)
			got, err := real.Propose(ctx, p)
			if err != nil {
				t.Fatal(err)
			}
			same(fmt.Sprintf("%+v", p), shown(want, time.Minute), shown(got, time.Minute))
		case r.IntN(3) == 0:
			w := nodewire.Wish{Name: name, Who: lease()}
			if r.IntN(2) == 0 {
				w.For = time.Duration(1+2*r.IntN(2)) * time.Minute
			}
			want, _ := model.Want(ctx, w)
			got, err := real.Want(ctx, w)
			if err != nil {
				t.Fatal(err)
			}
			same(fmt.Sprintf("%+v", w), seen(want, time.Minute), seen(got, time.Minute))
		case r.IntN(2) == 0:
			of := r.IntN(leases)
			p := nodewire.Place{Name: name, Shared: of < readers, Lease: fmt.Sprint("lease", of), Place: r.Uint64N(4), For: time.Duration(r.IntN(3)) * time.Minute, Token: 1 + r.Uint64N(6), Seq: r.IntN(9), TTL: time.Duration(1+2*r.IntN(2)) * time.Minute, Record: `{"who":"x y"}`}
			want, _ := model.Enqueue(ctx, p)
			got, err := real.Enqueue(ctx, p)
			if err != nil {
				t.Fatal(err)
			}
			same(fmt.Sprintf("%+v", p), seen(want, time.Minute), seen(got, time.Minute))
		default:
			e := nodewire.Ending{Name: name, Lease: lease(), Bar: r.IntN(4) == 0, Held: r.IntN(2) == 0, Next: r.Uint64N(8)}
			if r.IntN(6) == 0 {
				e.News = fmt.Sprint("news", r.IntN(3))
			}
			want, next, _ := model.End(ctx, e)
			got, handed, err := real.End(ctx, e)
			if err != nil {
				t.Fatal(err)
			}
			same(fmt.Sprintf("%+v", e), fmt.Sprint(want, next), fmt.Sprint(got, handed))
		}
		want, _ := model.Read(ctx, names, false)
		got, err := real.Read(ctx, names, false)
		if err != nil {
			t.Fatal(err)
		}
		for i := range names {
			same("read", seen(want[i], time.Minute), seen(got[i], time.Minute))
			same("waiters", want[i].Waiters, got[i].Waiters)
		}
	}
	want, _ := model.List(ctx, "")
	got, err := real.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	slices.Sort(got)
	same("list", want, got)
}

// TestEqualTokens: a server stores no token for a second lease, whether the lock is free or not.
func TestEqualTokens(t *testing.T) {
	t.Parallel()
	opts := patient()
	node := single(t, startFleet(t, 3, opts)[0], opts)
	propose := func(lease string) nodewire.Vote {
		t.Helper()
		v, err := node.Propose(t.Context(), nodewire.Proposal{Name: name, Lease: lease, Token: 7, TTL: time.Minute, Record: "{}"})
		if err != nil || !v.Has {
			t.Fatalf("Propose = %+v, %v", v, err)
		}
		return v
	}
	propose("one")
	if _, _, err := node.End(t.Context(), nodewire.Ending{Name: name, Lease: "one", Held: true}); err != nil {
		t.Fatal(err)
	}
	if v := propose("two"); v.Stored {
		t.Error("token 7 is stored for two leases")
	}
}

// TestTokenBeyond: a server refuses a token that is no whole number for it, whether the lock is
// free or not, and keeps nothing of it.
func TestTokenBeyond(t *testing.T) {
	t.Parallel()
	opts := patient()
	node := single(t, startFleet(t, 3, opts)[0], opts)
	p := nodewire.Proposal{Name: name, Lease: "wrong", Token: nodewire.MaxToken + 1, TTL: time.Minute}
	for _, p.Mode = range []nodewire.Mode{nodewire.Take, nodewire.Heal} {
		if v, err := node.Propose(t.Context(), p); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "2^53") {
			t.Errorf("Propose = %+v, %v; want ErrUnavailable that names the limit", v, err)
		}
	}
	p = nodewire.Proposal{Name: name, Lease: "right", Token: 1, TTL: time.Minute}
	if v, err := node.Propose(t.Context(), p); err != nil || !v.Stored {
		t.Errorf("Propose after that = %+v, %v; want it stored", v, err)
	}
}

// TestFloorBehindAFailedAttempt: the token of a failed attempt overtakes no lease, and
// the one that was stored before it does.
func TestFloorBehindAFailedAttempt(t *testing.T) {
	t.Parallel()
	opts := patient()
	node := single(t, startFleet(t, 3, opts)[0], opts)
	ask := func(mode nodewire.Mode, lease string, token uint64, held bool) bool {
		t.Helper()
		v, err := node.Propose(t.Context(), nodewire.Proposal{Mode: mode, Name: name, Lease: lease, Token: token, TTL: time.Minute})
		if err == nil && v.Has {
			_, _, err = node.End(t.Context(), nodewire.Ending{Name: name, Lease: lease, Held: held})
		}
		if err != nil {
			t.Fatal(err)
		}
		return v.Has
	}
	ask(nodewire.Take, "granted", 3, true)
	ask(nodewire.Take, "failed", 5, false)
	if ask(nodewire.Heal, "overtaken", 2, true) {
		t.Error("a lease that was overtaken was healed")
	}
	if !ask(nodewire.Heal, "holder", 4, true) {
		t.Error("a holder was not healed, for the sake of an attempt that failed")
	}
}

// TestWishesEndWithTheWriter: the end of an exclusive lease that was held ends all wishes.
func TestWishesEndWithTheWriter(t *testing.T) {
	t.Parallel()
	opts := patient()
	node := single(t, startFleet(t, 3, opts)[0], opts)
	if v, err := node.Propose(t.Context(), nodewire.Proposal{Name: name, Lease: "writer", Token: 3, TTL: time.Minute}); err != nil || !v.Has {
		t.Fatalf("Propose = %+v, %v", v, err)
	}
	if st, err := node.Want(t.Context(), nodewire.Wish{Name: name, Who: "another", For: time.Minute}); err != nil || st.Wishes != 1 {
		t.Fatalf("Want = %+v, %v; want one wish", st, err)
	}
	if _, _, err := node.End(t.Context(), nodewire.Ending{Name: name, Lease: "writer", Held: true}); err != nil {
		t.Fatal(err)
	}
	if v, err := node.Propose(t.Context(), nodewire.Proposal{Name: name, Lease: "reader", Shared: true, Token: 4, TTL: time.Minute}); err != nil || !v.Has {
		t.Errorf("Propose of a reader = %+v, %v; want that the wish has ended", v, err)
	}
}

// TestLateProposal: a request that comes long after its lease was ended takes nothing,
// however short the TTLs are.
func TestLateProposal(t *testing.T) {
	t.Parallel()
	opts := patient()
	opts.TTL, opts.MaxTTL = time.Second, time.Second
	f := startFleet(t, 3, opts)
	node := single(t, f[0], opts)
	if _, _, err := node.End(t.Context(), nodewire.Ending{Name: name, Lease: "late", Bar: true}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(opts.MaxTTL + 100*time.Millisecond)
	v, err := node.Propose(t.Context(), nodewire.Proposal{Name: name, Lease: "late", Token: 1, TTL: time.Second})
	if err != nil || v.Has || !v.Ended {
		t.Errorf("Propose = %+v, %v; want that the lease has ended", v, err)
	}
}

// listensAt waits until the client of a node can hear its messages.
func listensAt(t *testing.T, n *redisNode) {
	t.Helper()
	if !eventually(patience, func() bool { open, _, _ := n.server.Subscription().State(); return open }) {
		t.Fatal("the client does not begin to listen")
	}
}

// TestListeners: who waits for a shared lock is told when a lock has ended, and when a wish has.
func TestListeners(t *testing.T) {
	t.Parallel()
	opts := patient()
	f := startFleet(t, 3, opts)
	a, b := single(t, f[0], opts), single(t, f[0], opts)
	woken := make(chan string, 100)
	for i, n := range []*redisNode{a, b} {
		n.Tell(func(m nodewire.Message) { woken <- cmp.Or(m.Lease, fmt.Sprint("client ", i)) })
		listensAt(t, n)
	}
	expect := func(want ...string) {
		t.Helper()
		got := make(map[string]bool)
		for len(got) < len(want) {
			select {
			case who := <-woken:
				switch {
				case slices.Contains(want, who):
					got[who] = true
				case !strings.HasPrefix(who, "client "): // a client may begin to listen later than it says so
					t.Fatalf("%q was woken; want %v", who, want)
				}
			case <-time.After(patience):
				t.Fatalf("%v were woken; want %v", got, want)
			}
		}
	}
	quiet := func() { // what was on its way has come
		time.Sleep(100 * time.Millisecond)
		for len(woken) > 0 {
			<-woken
		}
	}
	listen := func(n *redisNode, lease string, long time.Duration) {
		t.Helper()
		p := nodewire.Place{Name: name, Lease: lease, Shared: true, For: long, TTL: time.Minute, Record: "{}"}
		if _, err := n.Enqueue(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	listeners := func(want string) {
		t.Helper()
		if got := f[0].do("zcard", "pawl:redlock:{"+name+"}"+listenersSuffix); got != want {
			t.Errorf("%s listeners; want %s", got, want)
		}
	}
	cycleOn := func(lease string) {
		t.Helper()
		if _, err := a.Propose(t.Context(), nodewire.Proposal{Name: name, Lease: lease, Token: 1, TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if had, _, err := a.End(t.Context(), nodewire.Ending{Name: name, Lease: lease}); !had || err != nil {
			t.Fatalf("End = %t, %v", had, err)
		}
	}
	listen(a, "a", time.Minute)
	listen(b, "b", time.Minute)
	cycleOn("one")
	expect("a", "b")
	quiet()
	listen(a, "a", 0)
	listen(b, "b", time.Minute)
	listeners("1")
	cycleOn("two")
	expect("b")
	f[0].restart()                 // it has forgotten its listeners
	expect("client 0", "client 1") // all that wait look
	quiet()
	fleet(f[:1]).oneByOne(t, opts)
	listen(b, "b", time.Minute)
	cycleOn("three")
	expect("b")
	quiet()

	// The last of several readers goes, the last writer gives up its wish.
	share := func(lease string) {
		t.Helper()
		p := nodewire.Proposal{Name: name, Lease: lease, Token: 1, TTL: time.Minute, Shared: true, Queued: true}
		if v, err := a.Propose(t.Context(), p); err != nil || !v.Has {
			t.Fatalf("Propose = %+v, %v", v, err)
		}
	}
	listen(b, "b", time.Minute)
	share("four")
	share("five")
	for i, lease := range []string{"four", "five"} {
		if had, _, err := a.End(t.Context(), nodewire.Ending{Name: name, Lease: lease}); !had || err != nil {
			t.Fatalf("End = %t, %v", had, err)
		}
		if i == 0 {
			time.Sleep(100 * time.Millisecond)
			if len(woken) > 0 {
				t.Error("who listens was woken by the release of a reader beside another")
			}
		}
	}
	expect("b")
	quiet()
	listen(b, "b", time.Minute)
	for _, long := range []time.Duration{time.Minute, 0} {
		if _, err := a.Want(t.Context(), nodewire.Wish{Name: name, Who: "writer", For: long}); err != nil {
			t.Fatal(err)
		}
	}
	expect("b")
	share("b") // it has what it waits for
	listeners("0")
}

// TestOtherLibraries: a library that locks the same key with SET NX PX at a majority
// excludes this one, and the other way round.
func TestOtherLibraries(t *testing.T) {
	t.Parallel()
	opts := patient()
	f := startFleet(t, 3, opts)
	d := dialFleet(t, f, opts)
	const key = "pawl:redlock:{" + name + "}"
	for _, s := range f[:2] {
		if got := s.do("set", key, "their random value", "nx", "px", "60000"); got != "OK" {
			t.Fatal(got)
		}
	}
	_, err := d.TryAcquire(t.Context(), long())
	if err == nil || !strings.Contains(err.Error(), "another library") {
		t.Errorf("TryAcquire = %v; want held by a client of another library", err)
	}
	for _, s := range f[:2] {
		s.do("del", key)
	}
	for _, shared := range []bool{false, true} {
		req := long()
		req.Shared = shared
		g, err := d.TryAcquire(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		synced := func() bool { return f[0].has(name) && f[1].has(name) && f[2].has(name) }
		if !eventually(patience, synced) {
			t.Error("not all nodes have the lock")
		}
		for _, s := range f {
			if got := s.do("set", key, "their random value", "nx", "px", "60000"); got != "" {
				t.Errorf("SET NX = %q; want nothing", got)
			}
		}
		if err := g.Release(t.Context()); err != nil {
			t.Error(err)
		}
		f.clear(t)
	}
}
