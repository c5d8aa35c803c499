// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

const changeTTL = time.Second

// load is clients that use one name all the time, each with the nodes of its generation.
type load struct {
	t       testing.TB
	holders atomic.Int32
	last    atomic.Uint64 // token
	turns   atomic.Int64
}

// start starts a client and returns what ends it.
func (l *load) start(url string, opts *Options) (stop func()) {
	l.t.Helper()
	d := openDriver(l.t, url, opts)
	ctx, cancel := context.WithCancel(l.t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		for ctx.Err() == nil {
			l.turn(ctx, d)
		}
	})
	return func() { cancel(); work.Wait() }
}

func (l *load) turn(ctx context.Context, d *Driver) {
	ctx, cancel := context.WithTimeout(ctx, 20*changeTTL)
	defer cancel()
	g, err := d.Acquire(ctx, lasting("job", changeTTL))
	if errors.Is(err, driver.ErrDisagree) {
		l.t.Errorf("Acquire under load = %v", err)
	}
	if g == nil {
		return
	}
	defer g.Release(context.Background())
	if err != nil {
		return
	}
	end := trust(g.Since(), changeTTL)
	if l.holders.Add(1) > 1 && driver.Now() < end {
		l.t.Error("two clients trust the name")
	}
	if last := l.last.Swap(g.Token()); g.Token() <= last && driver.Now() < end {
		l.t.Errorf("token %d after %d", g.Token(), last)
	}
	time.Sleep(2 * time.Millisecond)
	l.holders.Add(-1)
	l.turns.Add(1)
}

// works waits until clients have had their turns.
func (l *load) works(what string) {
	l.t.Helper()
	from := l.turns.Load()
	if !eventually(30*changeTTL, func() bool { return l.turns.Load() > from+10 }) {
		l.t.Fatalf("%s: nobody gets the name", what)
	}
}

// TestChangeNodes replaces a node that is dead, and goes from three nodes to five and back, while
// clients use the store. After each step clients with the nodes of the step before, and of the
// step after, work side by side; those of the one before that are refused.
func TestChangeNodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		servers  int
		from, to []int
		dead     int // dies before; -1: none
		joint    int // quorum
	}{
		{"replace one of five", 6, []int{0, 1, 2, 3, 4}, []int{0, 1, 2, 3, 5}, 4, 4},
		{"replace one of three", 4, []int{0, 1, 2}, []int{0, 1, 3}, 2, 3},
		{"three to five", 5, []int{0, 1, 2}, []int{0, 1, 2, 3, 4}, -1, 4},
		{"five to three", 5, []int{0, 1, 2, 3, 4}, []int{1, 2, 4}, -1, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			opts := withMaxTTL(changeTTL)
			all := make(fleet, c.servers)
			for i := range all {
				all[i] = startServer(t)
			}
			pick := func(which []int) (f fleet) {
				for _, i := range which {
					f = append(f, all[i])
				}
				return f
			}
			from, to := pick(c.from), pick(c.to)
			from.bless(t, opts)
			l := &load{t: t}
			stops := []func(){l.start(from.url(), opts), l.start(from.url(), opts)}
			restart := func(url string, opts *Options) { // one after the other
				t.Helper()
				for i := range stops {
					next := l.start(url, opts)
					l.works("clients of both generations")
					stops[i]()
					stops[i] = next
				}
				l.works("clients of the new generation")
			}
			l.works("clients of the old nodes")
			held := openDriver(t, from.url(), opts)
			if c.dead >= 0 {
				all[c.dead].kill()
				l.works("clients of the old nodes, one of which is dead")
			} else {
				refusedSet(t, to, opts)
			}
			step, err := ChangeNodes(t.Context(), from.url(), to.url(), opts)
			if err != nil || step.Last || step.Quorum != c.joint {
				t.Fatalf("the first step is %+v, %v; want a quorum of %d", step, err, c.joint)
			}
			both := make(fleet, len(step.Nodes))
			for i, addr := range step.Nodes {
				both[i] = &redis{Redis: servers.NewRedis("")}
				both[i].Addr = addr
			}
			bothOpts := withMaxTTLOf(changeTTL, step.Quorum)
			refusedSet(t, to, opts)
			restart(both.url(), bothOpts)
			g, err := held.TryAcquire(t.Context(), lasting("other", changeTTL))
			if err != nil {
				t.Fatal(err)
			}
			type end struct {
				err   error
				trust driver.Instant
			}
			stopped := make(chan end, 1)
			go func() { // a client that was forgotten
				last := g.Since()
				for {
					since, err := g.Renew(t.Context(), changeTTL)
					if err != nil {
						stopped <- end{err, trust(last, changeTTL)}
						return
					}
					last = since
					time.Sleep(changeTTL / 10)
				}
			}()
			if step, err = ChangeNodes(t.Context(), from.url(), to.url(), opts); err != nil || step.Last {
				t.Fatalf("the second step is %+v, %v", step, err)
			}
			select {
			case e := <-stopped:
				if !errors.Is(e.err, driver.ErrDisagree) {
					t.Errorf("Renew of a client of the old nodes = %v; want ErrDisagree", e.err)
				}
				if early := e.trust.Sub(driver.Now()); early > 0 {
					t.Errorf("the new nodes are accepted %v before the last lease of a client of the old ones has ended", early)
				}
			case <-time.After(5 * changeTTL):
				t.Error("a client of the old nodes goes on renewing its lease")
			}
			if c.dead < 0 { // else they may be those of the new set that are there
				refusedSet(t, from, opts)
			}
			restart(to.url(), opts)
			if step, err = ChangeNodes(t.Context(), from.url(), to.url(), opts); err != nil || !step.Last {
				t.Fatalf("the third step is %+v, %v", step, err)
			}
			l.works("clients of the new nodes")
			refusedSet(t, both, bothOpts)
			for _, stop := range stops {
				stop()
			}
		})
	}
}

// TestJointSets: for each change of few nodes there is a set that goes together with both, and bears
// as many nodes that are down as the smaller one.
func TestJointSets(t *testing.T) {
	ids := strings.Split("abcdefg", "")
	for _, c := range []struct{ a, b string }{{"abc", "abd"}, {"abc", "abcde"}, {"abcde", "abc"}, {"abcde", "abcdf"}, {"abcde", "abcdefg"}, {"abcde", "abcfg"}} {
		a, b := setOf(len(c.a)/2+1, c.a), setOf(len(c.b)/2+1, c.b)
		if apart(a, b, ids) != !a.Meets(b) {
			t.Errorf("%v.Meets(%v) = %v, which is wrong", a, b, a.Meets(b))
		}
		j := joint(a, b)
		if apart(j, a, ids) || apart(j, b, ids) || apart(j, j, ids) {
			t.Errorf("joint(%v, %v) = %v: not each quorum meets each", a, b, j)
		}
		t.Log(fmt.Sprint(a, b, j), "bears", len(j.IDs)-j.Quorum)
	}
}

func setOf(quorum int, ids string) epoch.Set { return epoch.NewSet(quorum, strings.Split(ids, "")) }

// TestSetsOfTwoChanges: leases of clients with the set in between may live on when the next change
// begins. So that set goes together with the one in between of any other change from or to the same
// nodes, for each quorum.
func TestSetsOfTwoChanges(t *testing.T) {
	ids := strings.Split("abcdefghi", "")
	for quorum := 3; quorum <= 5; quorum++ {
		middle := setOf(quorum, "abcde")
		var joined []epoch.Set
		for _, other := range []epoch.Set{setOf(2, "abc"), setOf(2, "afg"), setOf(4, "abcdf"), setOf(4, "abcdefg"), setOf(4, "abcdehi"), setOf(5, "efghi")} {
			joined = append(joined, joint(middle, other))
		}
		for _, j := range joined {
			for _, k := range joined {
				if apart(j, k, ids) {
					t.Errorf("%v and %v have a quorum each without a node in common, beside %v", j, k, middle)
				}
			}
		}
	}
}

// TestHalts: so many nodes of the old set that know of a step leave no quorum of that set, nor of one in between
// of a change from or to it.
func TestHalts(t *testing.T) {
	for quorum := 3; quorum <= 5; quorum++ {
		old := setOf(quorum, "abcde")
		left := setOf(len(old.IDs)-halts(old).n, "abcde") // the others may not know
		for _, other := range []epoch.Set{setOf(2, "abc"), setOf(2, "afg"), setOf(4, "abcdf"), setOf(4, "abcdefg"), setOf(5, "efghi")} {
			between := joint(old, other)
			others := len(between.Without(old))
			if left.Quorum >= old.Quorum || left.Quorum+others >= between.Quorum {
				t.Errorf("where %d of %v know, there may be a quorum of %v", halts(old).n, old, between)
			}
		}
	}
}

// apart reports whether two quorums have no node in common, by trying all.
func apart(a, b epoch.Set, ids []string) bool {
	count := func(s epoch.Set, mask int) (n int) {
		for i, id := range ids {
			for _, own := range s.IDs {
				if own == id && mask&(1<<i) != 0 {
					n++
				}
			}
		}
		return n
	}
	all := 1<<len(ids) - 1
	for mask := range all + 1 {
		if count(a, mask) >= a.Quorum && count(b, all&^mask) >= b.Quorum {
			return true
		}
	}
	return false
}
