// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// renewing is a request of a caller that renews.
func renewing() *driver.Request {
	req := request()
	req.Renewed = true
	return req
}

// TestHandOver: a release is the grant of the first waiter, without a proposal.
func TestHandOver(t *testing.T) {
	for _, n := range []int{3, 5} {
		synctest.Test(t, func(t *testing.T) {
			const waiters, way = 8, 200 * time.Microsecond
			all := masters(n)
			wan(all, way, uint64(n))
			var g *grant = try(t, start(t, all, nil))
			var ds []*store
			var got []<-chan *grant
			for range waiters {
				d := start(t, all, nil)
				ds = append(ds, d)
				got = append(got, acquire(t.Context(), d, renewing()))
				time.Sleep(50 * time.Millisecond) // all of them have seen the same token
			}
			rounds := func() (sum int64) {
				for _, d := range ds {
					sum += d.rounds.Load()
				}
				return sum
			}
			before, order := rounds(), make(map[int]bool)
			for range waiters {
				token, released := g.Token(), driver.Now()
				release(t, g)
				g = nil
				deadline := time.After(time.Second)
				for g == nil {
					for i := range got {
						select {
						case g = <-got[i]:
							order[i] = true
						default:
						}
					}
					select {
					case <-time.After(time.Millisecond):
					case <-deadline:
						t.Fatal("nobody was handed the name")
					}
				}
				if took := driver.Now().Sub(released); took > 5*time.Millisecond {
					t.Errorf("%d nodes: a hand-over took %v", n, took)
				}
				if g.Token() <= token {
					t.Errorf("%d nodes: token %d after %d", n, g.Token(), token)
				}
				if left := g.until.Sub(driver.Now()); left > claimFor || left < claimFor/2 {
					t.Errorf("%d nodes: the grant is trusted for %v; want the claim", n, left)
				}
			}
			if r := rounds() - before; r > 0 {
				t.Errorf("%d nodes: %d rounds of proposals for %d hand-overs", n, r, waiters)
			}
			renew(t, g, 10*time.Second)
			release(t, g)
			time.Sleep(time.Second)
			for i, m := range all {
				if s := m.stateOf(name); len(s.Locks) > 0 || s.Waiters > 0 {
					t.Errorf("node %d still has %+v", i, s)
				}
			}
		})
	}
}

// TestOrderOfPlaces: a waiter that came during an earlier lease is first.
func TestOrderOfPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		wan(all, 200*time.Microsecond, 1)
		wait := func() <-chan *grant {
			got := acquire(t.Context(), start(t, all, nil), renewing())
			time.Sleep(20 * time.Millisecond)
			return got
		}
		var g *grant = try(t, start(t, all, nil))
		early := []<-chan *grant{wait(), wait()}
		g.Release(t.Context())
		select {
		case g = <-early[0]:
			early = early[1:]
		case g = <-early[1]:
		}
		var late []<-chan *grant
		for range 6 {
			late = append(late, wait())
		}
		g.Release(t.Context())
		select {
		case g = <-early[0]:
		case <-time.After(100 * time.Millisecond):
			t.Fatal("a waiter that came later was first")
		}
		for range late {
			g.Release(t.Context())
			g = nil
			for i := 0; g == nil; i++ {
				select {
				case g = <-late[i%len(late)]:
				case <-time.After(time.Millisecond):
				}
			}
		}
		g.Release(t.Context())
	})
}

// TestLateTurn: a waiter that hears of its turn when little is left of the claim, or whose caller
// does not renew, asks for more time.
func TestLateTurn(t *testing.T) {
	for _, late := range []bool{true, false} {
		withLease(t, 3, func(t *testing.T, all []*master, g *grant) {
			d := start(t, all, nil)
			req := request()
			req.Renewed = late
			got := acquire(t.Context(), d, req)
			synctest.Wait()
			before := d.rounds.Load()
			if late {
				// The messages are held up for most of the claim.
				for _, m := range all {
					m.mu.Lock()
					for i, f := range m.tells {
						m.tells[i] = func(msg nodewire.Message) { time.AfterFunc(700*time.Millisecond, func() { f(msg) }) }
					}
					m.mu.Unlock()
				}
			}
			release(t, g)
			next := <-got
			if rounds := d.rounds.Load() - before; rounds != 0 {
				t.Errorf("late %t: %d rounds of proposals; want none", late, rounds)
			}
			if left := next.until.Sub(driver.Now()); left < 9*time.Second {
				t.Errorf("late %t: it is trusted for %v; want the TTL", late, left)
			}
			next.Release(t.Context())
		})
	}
}

// TestLostMessages: a waiter that is not told finds that it has the name when it looks.
func TestLostMessages(t *testing.T) {
	for lost := 1; lost <= 3; lost++ {
		withLease(t, 3, func(t *testing.T, all []*master, g *grant) {
			got := acquire(t.Context(), start(t, all, nil), renewing())
			synctest.Wait()
			for _, m := range all[:lost] {
				m.mu.Lock()
				m.tells = nil
				m.mu.Unlock()
			}
			began := driver.Now()
			g.Release(t.Context())
			next := <-got
			took := driver.Now().Sub(began)
			if took > lookEvery || lost == 1 && took > 10*time.Millisecond {
				t.Errorf("without the messages of %d nodes it took %v", lost, took)
			}
			next.Release(t.Context())
		})
	}
}

// TestNodesDisagree: nodes that have different waiters first let nobody starve.
func TestNodesDisagree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		wan(all, 200*time.Microsecond, 3)
		g := try(t, start(t, all, nil))
		a, b := acquire(t.Context(), start(t, all, nil), renewing()), acquire(t.Context(), start(t, all, nil), renewing())
		time.Sleep(50 * time.Millisecond)
		for i := range 2 { // as if requests of the first had been lost
			all[i].mu.Lock()
			q := all[i].Name(name).Queue
			q[0], q[1] = q[1], q[0]
			all[i].mu.Unlock()
		}
		last := all[1]
		last.mu.Lock()
		last.Name(name).Queue = nil
		last.mu.Unlock()
		began := driver.Now()
		g.Release(t.Context())
		for range 2 {
			var next *grant
			select {
			case next = <-a:
			case next = <-b:
			}
			if took := driver.Now().Sub(began); took > 8*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			next.Release(t.Context())
			began = driver.Now()
		}
	})
}

// TestNoOldToken: a waiter is handed no token that it would not propose: one whose clock has gone
// on, after the releaser's clock has stopped.
func TestNoOldToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		then := time.Now()
		g := try(t, start(t, all, &Options{WallClock: func() time.Time { return then }}))
		time.Sleep(time.Second)
		began := uint64(time.Now().UnixMicro())
		got := acquire(t.Context(), start(t, all, nil), renewing())
		synctest.Wait()
		g.Release(t.Context())
		if next := <-got; next.Token() < began {
			t.Errorf("token %d; want one of the waiter's clock, %d", next.Token(), began)
		} else {
			next.Release(t.Context())
		}
	})
}

// TestInspectWaiters: Inspect shows each waiter for an exclusive lease once, in the order of the queue. It does not show a
// waiter that has gone, nor the holder, which may still be in the queue of a node.
func TestInspectWaiters(t *testing.T) {
	withLease(t, 3, func(t *testing.T, all []*master, g *grant) {
		d := start(t, all, nil)
		shows := func(holder string, want ...string) {
			t.Helper()
			info, err := d.Inspect(t.Context(), name)
			if err != nil || len(info.Holders) != 1 || info.Holders[0].Who != holder {
				t.Fatalf("Inspect = %+v, %v; want that %s has it", info, err, holder)
			}
			var got []string
			for _, w := range info.Waiters {
				got = append(got, w.Who)
			}
			if !slices.Equal(got, want) {
				t.Errorf("Inspect shows that %q wait; want %q", got, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var got []<-chan *grant
		for _, who := range []string{"a", "b", "c"} {
			req, until := renewing(), t.Context()
			if req.Holder = (&driver.Holder{Who: who}); who == "b" {
				until = ctx
			}
			got = append(got, acquire(until, start(t, all, nil), req))
			time.Sleep(time.Second)
		}
		shows("test", "a", "b", "c")
		cancel()
		<-got[1]
		synctest.Wait()
		shows("test", "a", "c")
		all[2].set(only("end", fault{lost: true}))
		release(t, g)
		next := <-got[0]
		shows("a", "c")
		all[2].set(nil)
		release(t, next)
		release(t, <-got[2])
	})
}
