// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
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

// single starts a server, and opens it as a Node that belongs to no set of nodes.
func single(t testing.TB, opts *Options) (*redisNode, *redis) {
	t.Helper()
	opts.AllowSingle = true
	f := startFleet(t, 1, opts)
	return alone(t, f[0], opts), f[0]
}

func alone(t testing.TB, s *redis, opts *Options) *redisNode {
	t.Helper()
	n := openDriver(t, fleet{s}.url(), opts).members[0].Node.(*redisNode)
	n.roster = nil
	return n
}

// TestScriptsDoWhatNodeSays: the scripts in a server and the masters in memory, which
// follow the text of Node, answer the same to generated requests.
func TestScriptsDoWhatNodeSays(t *testing.T) {
	t.Parallel()
	opts := patient()
	opts.MaxTTL = 3 * time.Minute
	node, server := single(t, opts)
	handed, heard := 0, make(chan nodewire.Message, 1000)
	node.Tell(func(m nodewire.Message) {
		if m.Lease != "" { // a client may begin to listen later than it says so
			heard <- m
		}
	})
	listensAt(t, node)
	for seed := range uint64(80) {
		server.do("flushall")
		c := &comparison{t: t, real: node, model: masters(1)[0], r: rand.New(rand.NewPCG(seed, 0)), began: time.Now(), heard: heard}
		c.model.Tell(func(m nodewire.Message) { c.told = append(c.told, message(m)) })
		c.leases, c.readers = 4, []int{0, 2, 3}[seed/3%3]
		if seed%4 == 3 {
			c.queues, c.leases, c.readers = true, 5, int(seed/4%4/3)
		}
		if seed%3 > 0 || c.queues {
			fleet{server}.bless(t, opts)
		} else {
			c.model.Closed = time.Now().Add(opts.MaxTTL)
		}
		for i := 0; i < 60 && !t.Failed() && !c.late(); i++ {
			c.step(uint64(i))
		}
		listed, err := node.List(t.Context(), "")
		slices.Sort(listed)
		if !c.late() && len(heard) > 0 {
			t.Errorf("%d messages beyond those that Node allows", len(heard))
		}
		for len(heard) > 0 {
			<-heard
		}
		c.same("list", c.model.Model.List(""), listed, err)
		if handed += c.handed; t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if handed < 20 {
		t.Errorf("%d locks were handed over; want many", handed)
	}
}

// comparison sends the same requests to a server and to a master in memory.
type comparison struct {
	t       *testing.T
	real    *redisNode
	model   *master
	r       *rand.Rand
	leases  int
	readers int  // leases below this number are shared
	queues  bool // tokens grow, so that releases hand locks over
	began   time.Time
	handed  int
	trace   []string
	heard   chan nodewire.Message // from the server
	told    []string              // by the master in memory since the last step
}

// late reports whether the server may have forgotten a queue, which it keeps for 6 s.
func (c *comparison) late() bool { return time.Since(c.began) > 5*time.Second }

func (c *comparison) same(op string, want, got any, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	if fmt.Sprint(want) != fmt.Sprint(got) && !c.late() {
		c.t.Errorf("%s\n%s = %+v; want %+v", strings.Join(c.trace, "\n"), op, got, want)
	}
	c.trace = append(c.trace, fmt.Sprintf("%s = %+v", op, got))
}

// hears returns the next n messages of the server.
func (c *comparison) hears(n int) (all []string) {
	for range n {
		select {
		case m := <-c.heard:
			all = append(all, message(m))
		case <-time.After(patience):
		}
	}
	slices.Sort(all)
	return all
}

// message is what has to be the same of two messages.
func message(m nodewire.Message) string {
	return fmt.Sprint(m.Lease, " ", m.Broken, " ", m.News, " ", m.Token, " ", m.Seq)
}

// queue is what has to be the same of two queues.
func queue(s nodewire.State) (all []string) {
	for _, p := range s.Queue {
		all = append(all, fmt.Sprint(p.Lease, " ", p.Place, " ", p.Record))
	}
	return all
}

func (c *comparison) minutes() time.Duration { return time.Duration(1+2*c.r.IntN(2)) * time.Minute }

func (c *comparison) step(i uint64) {
	ctx, r, real, model := c.t.Context(), c.r, c.real, c.model.Model
	names := []string{"a", "}b"}
	name, of, token := names[r.IntN(2)], r.IntN(c.leases), 1+r.Uint64N(6)
	proposes, wish := r.IntN(4) > 0, time.Duration(r.IntN(2))*c.minutes()
	if c.queues {
		name, token = names[0], token+i/6
		proposes, wish = r.IntN(3) == 0, 0
	}
	lease, shared, next := fmt.Sprint("lease", of), of < c.readers, r.Uint64N(8)
	if c.queues {
		next = token
	}
	switch {
	case proposes:
		p := nodewire.Proposal{Mode: nodewire.Mode(r.IntN(2)), Name: name, Shared: shared, Lease: lease, Queued: r.IntN(2) == 0, Token: token, TTL: c.minutes(), Record: `{"who":"x y"}`}
		got, err := real.Propose(ctx, p)
		c.same(fmt.Sprintf("%+v", p), shown(model.Propose(p)), shown(got), err)
	case r.IntN(2) == 0:
		p := nodewire.Place{Name: name, Shared: shared, Lease: lease, Place: r.Uint64N(4), For: c.minutes(), Token: token, Seq: r.IntN(9), TTL: c.minutes(), Record: `{"who":"x y"}`, Wish: wish}
		got, err := real.Enqueue(ctx, p)
		c.same(fmt.Sprintf("%+v", p), seen(model.Enqueue(p)), seen(got), err)
	default:
		e := nodewire.Ending{Name: name, Lease: lease, Bar: r.IntN(4) == 0, Held: r.IntN(2) == 0, Next: next}
		if r.IntN(6) == 0 {
			e.News = fmt.Sprint("news", r.IntN(3))
		}
		if locks := c.model.stateOf(name).Locks; c.queues && len(locks) > 0 && r.IntN(2) == 0 {
			e.Lease = locks[0].Lease
		}
		had, next, err := real.End(ctx, e)
		want, hands := model.End(e)
		c.same(fmt.Sprintf("%+v", e), fmt.Sprint(want, hands), fmt.Sprint(had, next), err)
		if next {
			c.handed++
		}
	}
	states, err := real.Read(ctx, names)
	if err != nil {
		c.t.Fatal(err)
	}
	for i, want := range model.Read(names) {
		c.same("read", fmt.Sprint(seen(want), want.Waiters, queue(want)), fmt.Sprint(seen(states[i]), states[i].Waiters, queue(states[i])), nil)
	}
	if slices.Sort(c.told); !c.late() {
		if got := c.hears(len(c.told)); !slices.Equal(got, c.told) {
			c.t.Errorf("%s\nmessages = %q; want %q", strings.Join(c.trace, "\n"), got, c.told)
		}
	}
	c.told = nil
}

// shown is what has to be the same of two votes.
func shown(v nodewire.Vote) string {
	closed := v.Closed.Round(time.Minute)
	if v.Has || v.Ended || len(v.Locks) > 0 { // it makes no difference
		closed = 0
	}
	state := seen(v.State)
	if v.Stored {
		v.Writer = 0
	}
	if v.Has {
		state = fmt.Sprint(v.Floor, " ", v.Writer) // of what it has there is no more to say
	}
	return fmt.Sprint(v.Has, v.Stored, closed, v.Ended, v.News, state)
}

// seen is what has to be the same of two states.
func seen(s nodewire.State) string {
	var locks []string
	for _, l := range s.Locks {
		locks = append(locks, fmt.Sprint(l.Lease, " ", l.Shared, " ", l.Token, " ", l.Record, " ", l.Left.Round(time.Minute), " ", !l.Granted.IsZero()))
	}
	slices.Sort(locks) // those that end in the same instant come in any order
	return fmt.Sprint(locks, " ", s.Floor, " ", s.Writer, " ", s.Wishes, " ", s.Wished.Round(time.Minute), " ", s.Ahead)
}

// TestTokenBeyond: a server refuses a token that is no whole number for it, whether the lock is
// free or not, and keeps nothing of it.
func TestTokenBeyond(t *testing.T) {
	t.Parallel()
	node, _ := single(t, patient())
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
	node, _ := single(t, patient())
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

// TestLateProposal: a request that comes long after its lease was ended takes nothing,
// however short the TTLs are.
func TestLateProposal(t *testing.T) {
	t.Parallel()
	opts := patient()
	opts.TTL, opts.MaxTTL = time.Second, time.Second
	node, _ := single(t, opts)
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
	if !eventually(patience, func() bool { return n.server.Subscription().Silence() == 0 }) {
		t.Fatal("the client does not begin to listen")
	}
}

// TestToldOfARestart: a client whose subscription is open again is told that messages may have been lost.
func TestToldOfARestart(t *testing.T) {
	t.Parallel()
	node, server := single(t, patient())
	told := make(chan nodewire.Message, 100)
	node.Tell(func(m nodewire.Message) { told <- m })
	listensAt(t, node)
	time.Sleep(100 * time.Millisecond) // it may begin to listen later than it says so
	for len(told) > 0 {
		<-told
	}
	server.restart()
	select {
	case m := <-told:
		if m.Lease != "" {
			t.Errorf("the client is told %+v", m)
		}
	case <-time.After(patience):
		t.Error("the client is told nothing")
	}
}
