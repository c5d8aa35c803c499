// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// reader is a new attempt to share the name.
func reader() *driver.Request {
	req := request()
	req.Shared = true
	return req
}

func tryShared(t *testing.T, d *Driver) *grant {
	t.Helper()
	g, err := d.TryAcquire(t.Context(), reader())
	if err != nil {
		t.Fatalf("TryAcquire of a reader = %v; want a grant", err)
	}
	synctest.Wait()
	return g.(*grant)
}

// refused checks that d does not get what req asks for.
func refused(t *testing.T, d *Driver, req *driver.Request) {
	t.Helper()
	if g, err := d.TryAcquire(t.Context(), req); g != nil || !errors.Is(err, driver.ErrHeld) {
		t.Errorf("TryAcquire (shared %t) = %v, %v; want ErrHeld", req.Shared, g, err)
	}
	synctest.Wait()
}

// acquire waits in the background.
func acquire(ctx context.Context, d *Driver, req *driver.Request) <-chan driver.Grant {
	got := make(chan driver.Grant, 1)
	go func() {
		g, _ := d.Acquire(ctx, req)
		got <- g
	}()
	return got
}

// TestReadersAndWriters: a quorum for one and a quorum for the other share a node,
// whichever nodes they are.
func TestReadersAndWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		a, b := start(t, all, nil), start(t, all, nil)
		for first := range 5 {
			down := func(nodes ...int) {
				for i, m := range all {
					m.set(nil)
					for _, n := range nodes {
						if i == n%5 {
							m.set(always(fault{refused: true}))
						}
					}
				}
			}
			for _, kinds := range [][2]bool{{true, false}, {false, true}} {
				down(first, first+1)
				req, other := request(), request()
				req.Shared, other.Shared = kinds[0], kinds[1]
				g, err := a.TryAcquire(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				down(first+2, first+3)
				if g, err := b.TryAcquire(t.Context(), other); err == nil {
					t.Errorf("nodes %d and %d down, then two others: token %d beside the lease with token %d", first, first+1, g.Token(), 0)
				}
				down()
				if err := g.Release(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Minute) // marks and debts are over
				free(t, all, "")
			}
		}
	})
}

// TestForgetfulNodeOfReaders: a reader holds A, B and C; C restarts empty; a writer
// must not get C, D and E. Without quarantine it does.
func TestForgetfulNodeOfReaders(t *testing.T) {
	for _, quarantine := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			all := masters(5)
			client1, client2 := start(t, all, nil), start(t, all, nil)
			for _, m := range all[3:] {
				m.set(always(fault{refused: true}))
			}
			g := tryShared(t, client1)
			all[2].restart(quarantine)
			for i, m := range all {
				m.set(nil)
				if i < 2 {
					m.set(always(fault{refused: true}))
				}
			}
			second, err := client2.TryAcquire(t.Context(), request())
			switch {
			case quarantine && err == nil:
				t.Errorf("a writer has token %d while the reader with token %d is trusted", second.Token(), g.token)
			case !quarantine && err != nil:
				t.Errorf("TryAcquire without quarantine = %v; this test cannot fail", err)
			}
		})
	}
}

// TestReadersHeal: a node that has lost its readers gets back those too that have not
// the largest token, but nobody whom a writer has overtaken.
func TestReadersHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		d, other := start(t, all, nil), start(t, all, nil)
		first, second := tryShared(t, d), tryShared(t, other)
		renew := func(g *grant) {
			t.Helper()
			if _, err := g.Renew(t.Context(), 10*time.Second); err != nil {
				t.Errorf("Renew = %v", err)
			}
			synctest.Wait()
		}
		has := func(lease string) bool {
			for _, l := range all[0].stateOf(name).Locks {
				if l.Lease == lease {
					return true
				}
			}
			return false
		}
		forget := func() {
			for _, g := range []*grant{first, second} {
				if _, err := all[0].End(t.Context(), Ending{Name: name, Lease: g.lease}); err != nil {
					t.Fatal(err)
				}
			}
		}
		forget()
		renew(second)
		renew(first)
		if !has(first.lease) || !has(second.lease) {
			t.Errorf("after renewals the node has %+v; want both readers", all[0].stateOf(name))
		}
		forget()
		all[0].mu.Lock()
		all[0].propose(Proposal{Name: name, Lease: "writer", Token: second.token + 1, TTL: time.Second, Record: "{}"})
		all[0].mu.Unlock()
		time.Sleep(2 * time.Second)
		renew(second)
		renew(first)
		if has(first.lease) || has(second.lease) {
			t.Errorf("after a writer the node has %+v; want nobody", all[0].stateOf(name))
		}
	})
}

// deaf are nodes that make nothing of wishes.
type deaf struct{ *master }

func (d deaf) Want(ctx context.Context, w Wish) (State, error) {
	s, err := d.Read(ctx, []string{w.Name})
	if err != nil {
		return State{}, err
	}
	return s[0], nil
}

// TestStreamOfReaders: a hundred readers, of whom many hold the name at any time, and a
// writer that gets it all the same, within the time for which two of them hold it,
// one after the other. It does not where nodes are deaf to wishes.
func TestStreamOfReaders(t *testing.T) {
	for _, wishes := range []bool{true, false} {
		for n, least := range map[int]time.Duration{3: 200 * time.Microsecond, 5: 5 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) { stream(t, n, least, wishes) })
		}
	}
}

func stream(t *testing.T, n int, least time.Duration, wishes bool) {
	const readers, hold, patience = 100, 200 * time.Millisecond, 10 * time.Second
	all := masters(n)
	wan(all, least, uint64(n))
	opts := &Options{NodeTimeout: time.Second}
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	var ds []*Driver
	for i := range readers {
		d := start(t, all, opts)
		ds = append(ds, d)
		wait.Go(func() {
			time.Sleep(time.Duration(i) * hold / readers)
			for ctx.Err() == nil {
				g, err := d.Acquire(ctx, reader())
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("Acquire of a reader = %v", err)
					}
					return
				}
				time.Sleep(hold)
				if err := g.Release(t.Context()); err != nil {
					t.Errorf("Release of a reader = %v", err)
				}
			}
		})
	}
	var ns []Node
	for _, m := range all {
		if wishes {
			ns = append(ns, m)
		} else {
			ns = append(ns, deaf{m})
		}
	}
	writer, err := NewDriverFor(t.Context(), ns, opts)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * hold)
	var s Stats
	for _, d := range ds {
		s.Grants += d.Stats().Grants
		s.Rounds += d.Stats().Rounds
	}
	for range 3 {
		began := driver.Now()
		wctx, cancel := context.WithTimeout(t.Context(), patience)
		g, err := writer.Acquire(wctx, request())
		cancel()
		took := driver.Now().Sub(began)
		if wishes != (err == nil) {
			t.Errorf("%d nodes that hear wishes (%t): Acquire of a writer = %v after %v", n, wishes, err, took)
		}
		if err != nil {
			break
		}
		t.Logf("%d nodes: the writer had the name after %v", n, took)
		if took > 2*hold {
			t.Errorf("%d nodes: the writer had the name after %v; readers hold it for %v", n, took, hold)
		}
		time.Sleep(10 * time.Millisecond)
		if err := g.Release(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(hold)
	}
	stop()
	wait.Wait()
	t.Logf("%.2f rounds for each reader", float64(s.Rounds)/float64(s.Grants))
	if s.Rounds > 3*s.Grants {
		t.Errorf("%+v; want three rounds for each reader at most", s)
	}
	if err := writer.Close(); err != nil {
		t.Error(err)
	}
}

// TestStreamOfWriters: writers that follow each other leave room for a reader.
func TestStreamOfWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hold = 5 * time.Millisecond
		all := masters(3)
		wan(all, 200*time.Microsecond, 1)
		ctx, stop := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		var mu sync.Mutex
		turns := 0
		for range 8 {
			d := start(t, all, nil)
			wait.Go(func() {
				for {
					g, err := d.Acquire(ctx, request())
					if err != nil {
						return
					}
					mu.Lock()
					turns++
					mu.Unlock()
					time.Sleep(hold)
					g.Release(t.Context())
					time.Sleep(hold)
				}
			})
		}
		d := start(t, all, nil)
		time.Sleep(time.Second)
		waits := make(map[bool]int) // in turns of writers
		for i := range 40 {
			req := request()
			req.Shared = i%2 == 0
			mu.Lock()
			before := turns
			mu.Unlock()
			g, err := d.Acquire(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			waits[req.Shared] += turns - before
			mu.Unlock()
			time.Sleep(hold)
			if err := g.Release(t.Context()); err != nil {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("readers waited for %d writers, writers for %d", waits[true], waits[false])
		if waits[true] > 3*waits[false] {
			t.Error("readers wait longer than writers")
		}
		stop()
		wait.Wait()
	})
}

// TestWishOfTheDead: what a writer that was cut off has left costs readers its wish's
// time, and no more; one that gives up costs them nothing.
func TestWishOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		l := new(linked)
		var ns []Node
		for _, m := range all {
			ns = append(ns, link{m, l})
		}
		var err error
		if l.Driver, err = NewDriverFor(t.Context(), ns, nil); err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		d := start(t, all, nil)
		tryShared(t, d)

		ctx, cancel := context.WithCancel(t.Context())
		got := acquire(ctx, l.Driver, request())
		time.Sleep(time.Second)
		refused(t, d, reader())
		waiting := acquire(t.Context(), d, reader())
		time.Sleep(time.Millisecond)
		cancel()
		began := driver.Now()
		<-got
		(<-waiting).Release(t.Context()) // it was woken
		if took := driver.Now().Sub(began); took > 100*time.Millisecond {
			t.Errorf("a reader came in %v after a writer had given up", took)
		}
		tryShared(t, d).Release(t.Context())

		ctx, cancel = context.WithCancel(t.Context())
		got = acquire(ctx, l.Driver, request())
		time.Sleep(time.Second)
		refused(t, d, reader())
		l.setCut(true)
		cancel()
		<-got
		began = driver.Now()
		refused(t, d, reader())
		g := <-acquire(t.Context(), d, reader())
		if took := driver.Now().Sub(began); g == nil || took > 3*lookEvery {
			t.Errorf("a reader got %v, %v after a writer had died; want a lease after %v at most", g, took, 3*lookEvery)
		}
	})
}

// TestDowngradeInPart: a node has heard that a writer has become a reader, and the
// others have not. No other reader has a quorum until the writer has told one, where it
// has the lock at all nodes.
func TestDowngradeInPart(t *testing.T) {
	for _, lost := range []fault{{lost: true}, {silent: true}} {
		synctest.Test(t, func(t *testing.T) {
			all := masters(3)
			d, other := start(t, all, nil), start(t, all, nil)
			g := try(t, d)
			for _, m := range all[1:] {
				m.set(only("propose", lost))
			}
			if err := g.Downgrade(t.Context()); !errors.Is(err, driver.ErrUncertain) {
				t.Errorf("Downgrade that two of three nodes do not answer = %v; want ErrUncertain", err)
			}
			synctest.Wait()
			for _, m := range all[1:] {
				m.set(nil)
			}
			if lost.lost {
				refused(t, other, reader())
			}
			if _, err := d.TryAcquire(t.Context(), request()); !errors.Is(err, driver.ErrHeld) {
				t.Errorf("TryAcquire of a writer = %v; want ErrHeld", err)
			}
			if _, err := g.Renew(t.Context(), 10*time.Second); err != nil {
				t.Errorf("Renew = %v", err)
			}
			synctest.Wait()
			for _, m := range all {
				if l := m.lockOf(name); !l.Shared || l.Token != g.token {
					t.Errorf("%s has %+v; want the lease, shared, with token %d", m.addr, l, g.token)
				}
			}
			tryShared(t, other)
		})
	}
}

// TestDowngradeOfAMinority: the writer has three of five nodes, of which one has heard that
// it is a reader now. A reader gets that one and the two others, and no writer comes in.
// Renewals make both of them readers everywhere.
func TestDowngradeOfAMinority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		d, other := start(t, all, nil), start(t, all, nil)
		for _, m := range all[3:] {
			m.set(always(fault{refused: true}))
		}
		g := try(t, d)
		for _, m := range all[1:] {
			m.set(always(fault{lost: true}))
		}
		if err := g.Downgrade(t.Context()); !errors.Is(err, driver.ErrUncertain) {
			t.Errorf("Downgrade that one of five nodes answers = %v; want ErrUncertain", err)
		}
		synctest.Wait()
		for _, m := range all {
			m.set(nil)
		}
		r := tryShared(t, other)
		refused(t, other, request())
		for _, l := range []*grant{g, r} {
			if _, err := l.Renew(t.Context(), 10*time.Second); err != nil {
				t.Errorf("Renew = %v", err)
			}
			synctest.Wait()
		}
		for _, m := range all {
			if s := m.stateOf(name); len(s.Locks) != 2 || !s.Locks[0].Shared || !s.Locks[1].Shared {
				t.Errorf("%s has %+v; want both, shared", m.addr, s.Locks)
			}
		}
	})
}

// TestLateRenewalAfterDowngrade: a renewal from before that comes late makes nothing
// exclusive again where the lease is shared.
func TestLateRenewalAfterDowngrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		d, other := start(t, all, nil), start(t, all, nil)
		g := try(t, d)
		late := Proposal{Mode: Heal, Name: name, Lease: g.lease, Token: g.token, TTL: 10 * time.Second, Record: "{}"}
		if err := g.Downgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		tryShared(t, other)
		for _, m := range all {
			if v, err := m.Propose(t.Context(), late); err != nil || !v.Has {
				t.Errorf("Propose = %+v, %v", v, err)
			}
		}
		refused(t, other, request())
		tryShared(t, other)
		if _, err := g.Pass(t.Context(), request()); err == nil {
			t.Error("a shared lease was passed on")
		}
	})
}

// TestCrowdOfReaders: 64 participants wait while a writer has the name, and read it at the
// same time when it is done. Their tokens get into each other's way, their locks do not.
func TestCrowdOfReaders(t *testing.T) {
	for _, n := range []int{3, 5} {
		synctest.Test(t, func(t *testing.T) {
			const readers = 64
			all := masters(n)
			wan(all, 200*time.Microsecond, uint64(n))
			g := try(t, start(t, all, nil))
			var ds []*Driver
			var got []<-chan driver.Grant
			for range readers {
				d := start(t, all, nil)
				ds = append(ds, d)
				got = append(got, acquire(t.Context(), d, reader()))
			}
			time.Sleep(time.Second)
			for _, d := range ds {
				d.rounds.Store(0)
			}
			began := driver.Now()
			if err := g.Downgrade(t.Context()); err != nil {
				t.Fatal(err)
			}
			tokens := map[uint64]bool{g.token: true}
			rounds := int64(0)
			for i, got := range got {
				g := <-got
				if g == nil || tokens[g.Token()] {
					t.Fatalf("%v: no lease, or a token that another has", g)
				}
				tokens[g.Token()] = true
				rounds += ds[i].Stats().Rounds
			}
			took := driver.Now().Sub(began)
			t.Logf("%d nodes: %v for all, with %.1f rounds of proposals for each", n, took, float64(rounds)/readers)
			if took > time.Second || rounds > 8*readers {
				t.Errorf("%d nodes: it took %v and %d rounds", n, took, rounds)
			}
			if info, err := ds[0].Inspect(t.Context(), name); err != nil || len(info.Holders) != readers+1 {
				t.Errorf("Inspect = %v, %v; want all that share", info, err)
			}
		})
	}
}
