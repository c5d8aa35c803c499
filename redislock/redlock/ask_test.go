// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

const name = "deploy"

// start returns a driver on nodes, closed when the test ends.
func start(t *testing.T, all []*master, opts *Options) *store {
	t.Helper()
	d, err := newStore(t.Context(), nodes(all), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.party().Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

var attempts atomic.Int64

// request is a new attempt to get the name for 10 s, of which 9.898 s are trusted.
func request() *driver.Request {
	id := "attempt" + strconv.FormatInt(attempts.Add(1), 10)
	return &driver.Request{Name: name, Lease: id, TTL: 10 * time.Second, Holder: &driver.Holder{Who: "test"}}
}

func try(t *testing.T, d *store) *grant {
	t.Helper()
	g := get(t, d, request())
	synctest.Wait() // for the nodes behind the quorum
	return g
}

// withStore runs f in fake time, with a store on n masters.
func withStore(t *testing.T, n int, f func(t *testing.T, all []*master, d *store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		all := masters(n)
		f(t, all, start(t, all, nil))
	})
}

// withLease does what withStore does, with a lease that the store has.
func withLease(t *testing.T, n int, f func(t *testing.T, all []*master, g *grant)) {
	t.Helper()
	withStore(t, n, func(t *testing.T, all []*master, d *store) { f(t, all, try(t, d)) })
}

// others gives the locks of some masters to somebody else.
func others(all []*master, lease string) {
	for _, m := range all {
		m.mu.Lock()
		m.Model.Propose(nodewire.Proposal{Name: name, Lease: lease, Token: 1, TTL: time.Hour, Record: "{}"})
		m.mu.Unlock()
	}
}

// free checks that no master has a lock but those of lease.
func free(t *testing.T, all []*master, lease string) {
	t.Helper()
	for _, m := range all {
		for _, l := range m.stateOf(name).Locks {
			if l.Lease != lease {
				t.Errorf("%s has the lock of %q; want none", m.addr, l.Lease)
			}
		}
	}
}

func elapsed(t *testing.T, began driver.Instant, want time.Duration) {
	t.Helper()
	if got := driver.Now().Sub(began); got != want {
		t.Errorf("it took %v; want %v", got, want)
	}
}

func TestQuorum(t *testing.T) {
	for held := range 6 {
		t.Run(fmt.Sprint(held, " of 5 are held"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := masters(5)
				others(all[:held], "other")
				for _, m := range all[:held] { // so that the votes come first
					m.set(only("propose", fault{after: time.Millisecond}))
				}
				g, err := start(t, all, nil).TryAcquire(t.Context(), request())
				time.Sleep(10 * time.Millisecond)
				switch {
				case held <= 2 && err != nil:
					t.Errorf("TryAcquire = %v; want a grant of the other %d", err, 5-held)
				case held > 2 && !errors.Is(err, driver.ErrHeld):
					t.Errorf("TryAcquire = %v, %v; want ErrHeld", g, err)
				case held > 2:
					free(t, all, "other")
				}
			})
		})
	}
}

func TestMajorityDown(t *testing.T) {
	for _, c := range []struct {
		what  string
		fault fault
		want  error
		after time.Duration
	}{
		{"refused", fault{refused: true}, driver.ErrUnavailable, 0},
		{"silent", fault{lost: true}, driver.ErrUncertain, silence},
	} {
		t.Run(c.what, func(t *testing.T) {
			withStore(t, 5, func(t *testing.T, all []*master, d *store) {
				setAll(all[2:], always(c.fault))
				all[3].set(always(fault{refused: true}))
				began := driver.Now()
				g, err := d.TryAcquire(t.Context(), request())
				if g != nil || !errors.Is(err, c.want) {
					t.Errorf("TryAcquire = %v, %v; want %v", g, err, c.want)
				}
				if both := errors.Is(err, driver.ErrUnavailable) && errors.Is(err, driver.ErrUncertain); both || strings.Contains(err.Error(), "\n") {
					t.Errorf("TryAcquire = %v; want one line that is one of the two", err)
				}
				elapsed(t, began, c.after)
				// What the first attempt has left may keep out the second.
				_, err = d.Acquire(t.Context(), request())
				if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain) {
					t.Errorf("Acquire = %v; want an error of nodes that do not answer", err)
				}
				time.Sleep(100 * time.Millisecond)
				free(t, all, "")
			})
		})
	}
}

// TestOutageThatLooksHeld: the error reports it although the nodes that answer first
// have the lock of another.
func TestOutageThatLooksHeld(t *testing.T) {
	withStore(t, 5, func(t *testing.T, all []*master, d *store) {
		get(t, d, ownName(1))
		others(all[:2], "other")
		all[2].set(always(fault{refused: true}))
		all[3].set(always(fault{lost: true}))
		all[4].set(always(fault{lost: true}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := driver.Now()
		if _, err := d.Acquire(ctx, request()); !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain) {
			t.Errorf("Acquire = %v; want an error of nodes that do not answer", err)
		}
		if took, ttl := driver.Now().Sub(began), request().TTL; took < ttl || took > ttl+2*lookEvery {
			t.Errorf("it was told after %v; want a TTL of %v", took, ttl)
		}
	})
}

func TestOneServerVotesOnce(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		all[0].id, all[1].id = "same", "same" // two names lead to one server now
		all[2].set(always(fault{refused: true}))
		if g, err := d.TryAcquire(t.Context(), request()); err == nil {
			t.Errorf("TryAcquire = token %d; want an error: one server of three has granted", g.Token())
		}
	})
}

// TestElapsed: the trust begins before the first request is sent, and what is left
// of it when a quorum has answered must be more than the drift.
func TestElapsed(t *testing.T) {
	for _, c := range []struct {
		took  time.Duration
		grant bool
	}{{9890 * time.Millisecond, true}, {9899 * time.Millisecond, false}, {9990 * time.Millisecond, false}} {
		t.Run(c.took.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := masters(3)
				d := start(t, all, &Options{NodeTimeout: 10 * time.Second})
				setAll(all, only("propose", fault{after: c.took}))
				began := driver.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				g, err := d.TryAcquire(ctx, request())
				if (err == nil) != c.grant {
					t.Errorf("a grant that took %v of 10 s: %v; want a grant: %v", c.took, err, c.grant)
				}
				if err == nil && g.Since() != began {
					t.Errorf("Since is %v after the call; want the instant of the call", g.Since().Sub(began))
				}
				time.Sleep(20 * time.Second)
			})
		})
	}
}

// TestLateVotes: a vote that comes late does not count, even if the node was told to give up.
func TestLateVotes(t *testing.T) {
	const late = silence + time.Millisecond
	for _, faults := range [][2]fault{{{after: late}, {before: late}}, {{after: late, deaf: true}, {after: late, deaf: true}}} {
		withStore(t, 3, func(t *testing.T, all []*master, d *store) {
			for i, f := range faults {
				all[1+i].set(only("propose", f))
			}
			began := driver.Now()
			if g, err := d.TryAcquire(t.Context(), request()); err == nil {
				t.Errorf("TryAcquire = token %d; want an error: one of three has answered in time", g.Token())
			}
			elapsed(t, began, silence)
			time.Sleep(100 * time.Millisecond)
			free(t, all, "")
		})
	}
}

// TestSplitVote: no client has a quorum, so the name is not held. A client that asks
// alone gets it in the end, and otherwise its error says that the vote was split.
func TestSplitVote(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		setAll(all, always(fault{after: time.Millisecond}))
		others(all[:1], "rival1")
		others(all[1:2], "rival2")
		go func() { // one of them gives up
			time.Sleep(3 * time.Millisecond)
			all[0].End(context.Background(), nodewire.Ending{Name: name, Lease: "rival1"})
		}()
		try(t, d)
		if d.rounds.Load() < 2 {
			t.Error("the vote was not split")
		}
	})
}
