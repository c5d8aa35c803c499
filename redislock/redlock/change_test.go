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
	"github.com/pawl-go/pawl/driver/drivertest"
)

const changeTTL = time.Second

// load is clients that use one name all the time, some with the old nodes and some with the new ones.
type load struct {
	t     testing.TB
	mu    sync.Mutex
	over  driver.Instant // of the last grant's trust, or when it was given back
	turns [2]atomic.Int64
}

// start starts a client, of the old nodes (0) or the new ones (1). It opens as soon as it can.
func (l *load) start(which int, url string) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		for ctx.Err() == nil {
			d, err := connect(ctx, url, withMaxTTL(changeTTL))
			if err != nil {
				continue
			}
			for range 50 {
				l.turn(ctx, d, which)
			}
			d.Close()
		}
	})
	l.t.Cleanup(func() { cancel(); work.Wait() })
}

func (l *load) turn(ctx context.Context, d *store, which int) {
	g, err := d.TryAcquire(ctx, lasting("job", changeTTL))
	if err != nil {
		time.Sleep(5 * time.Millisecond)
		return
	}
	end := trust(g.Since(), changeTTL)
	l.mu.Lock()
	if now := driver.Now(); now < end && now < l.over {
		l.t.Errorf("a client of the nodes %d trusts the name %v before the lease of another has ended", which, l.over.Sub(now))
	}
	l.over = end
	l.mu.Unlock()
	time.Sleep(10 * time.Millisecond)
	if since, err := g.Renew(ctx, changeTTL); err == nil {
		l.mu.Lock()
		l.over = trust(since, changeTTL)
		l.mu.Unlock()
	}
	if driver.Now() < end {
		l.turns[which].Add(1)
	}
	l.mu.Lock()
	l.over = min(l.over, driver.Now())
	l.mu.Unlock()
	g.Release(context.WithoutCancel(ctx))
}

func (l *load) works(which int, what string) {
	l.t.Helper()
	from := l.turns[which].Load()
	if !eventually(30*changeTTL, func() bool { return l.turns[which].Load() > from+3 }) {
		l.t.Fatalf("%s: nobody with the nodes %d gets the name", what, which)
	}
}

func pick(all fleet, which ...int) (f fleet) {
	for _, i := range which {
		f = append(f, all[i])
	}
	return f
}

func startServers(t testing.TB, n int) (all fleet) {
	for range n {
		all = append(all, startServer(t))
	}
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// changing starts n servers and returns a change of nodes: from the first three to the servers numbered to.
func changing(t testing.TB, n int, to ...int) (all fleet, change Change) {
	opts := withMaxTTL(changeTTL)
	all = startServers(t, n)
	from := all[:3]
	from.bless(t, opts)
	from.name(t, opts)
	return all, Change{From: from.url(), To: pick(all, to...).url(), Options: opts}
}

// TestChange: the nodes are changed while clients with the old and the new ones try all the time, one of the old
// nodes is dead, others restart empty in the middle, and a client is paused from before the change until after it.
func TestChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		servers  int
		from, to []int
		dead     int   // dies before; -1: none
		restart  []int // start again, empty, during the wait
		refused  bool  // clients of the old nodes are, after it
	}{
		{"replace one of three", 4, []int{0, 1, 2}, []int{0, 1, 3}, 2, nil, false},
		{"replace one of five", 6, []int{0, 1, 2, 3, 4}, []int{0, 1, 2, 3, 5}, 4, []int{0}, false},
		{"three to five", 5, []int{0, 1, 2}, []int{0, 1, 2, 3, 4}, -1, []int{1, 3}, true},
		{"five to three", 5, []int{0, 1, 2, 3, 4}, []int{1, 2, 4}, -1, []int{0, 1, 2}, true},
		{"all others", 6, []int{0, 1, 2}, []int{3, 4, 5}, -1, []int{0, 1}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			opts := withMaxTTL(changeTTL)
			all := startServers(t, c.servers)
			from, to := pick(all, c.from...), pick(all, c.to...)
			from.bless(t, opts)
			l := &load{t: t}
			l.start(0, from.url())
			l.works(0, "before")
			paused := openThrough(t, from, opts)
			held := get(t, paused.store, lasting("other", changeTTL))
			end := trust(held.Since(), changeTTL)
			paused.set(drivertest.BlackHole)
			if c.dead >= 0 {
				all[c.dead].kill()
			}
			// Of clients with none but new nodes nobody can know before the change has begun.
			begin := sync.OnceFunc(func() { l.start(1, to.url()) })
			if c.name != "all others" {
				begin()
			}
			restarted := false
			var closed driver.Instant
			change := Change{From: from.url(), To: to.url(), Options: opts, Say: func(text string) {
				t.Log(text)
				if strings.HasPrefix(text, "closed ") {
					closed = driver.Now()
				}
				begin()
				if !restarted {
					restarted = true
					time.AfterFunc(changeTTL/2, func() {
						for _, i := range c.restart {
							all[i].restart()
						}
					})
				}
			}}
			var changed error
			if !eventually(patience, func() bool { // a node that starts again does not answer for a moment
				changed = change.Run(t.Context())
				return !errors.Is(changed, driver.ErrUnavailable)
			}) || changed != nil {
				t.Fatal(changed)
			}
			// What was held before may have ended by the time at which a busy machine has closed the nodes.
			if now := driver.Now(); now < end || now.Sub(closed) < changeTTL {
				t.Error("the new nodes are open while a lease of the old ones is trusted")
			}
			l.works(1, "after the change")
			paused.set(drivertest.Healthy)
			for range 3 {
				if _, err := held.Renew(t.Context(), changeTTL); err == nil {
					t.Error("a client that was paused renews a lease of the old nodes")
				}
			}
			if c.refused { // else it has a quorum of the new nodes
				if !eventually(patience, func() bool { // the connections are made again
					g, err := paused.TryAcquire(t.Context(), lasting("fresh", changeTTL))
					return g == nil && errors.Is(err, driver.ErrDisagree)
				}) {
					t.Error("a client of the old nodes that was paused is not refused")
				}
				refusedSet(t, from, opts)
			}
			if err := change.Run(t.Context()); err != nil {
				t.Errorf("the same change again: %v", err)
			}
		})
	}
}

// TestOperatorKilled: the operator ends before each of the writes. The change can be made again, or taken back,
// and two clients never trust one name.
func TestOperatorKilled(t *testing.T) {
	t.Parallel()
	for writes := range 9 {
		for _, back := range []bool{false, true} {
			t.Run(fmt.Sprintf("after %d writes, back %t", writes, back), func(t *testing.T) {
				t.Parallel()
				_, change := changing(t, 4, 0, 1, 3)
				l := &load{t: t}
				l.start(0, change.From)
				l.works(0, "before")
				l.start(1, change.To)
				var done atomic.Int64
				killed := change
				killed.killed = func() bool { return done.Add(1) > int64(writes) }
				if err := killed.Run(t.Context()); (err == nil) != (writes >= 9) {
					t.Logf("the change that is killed: %v", err)
				}
				if !back {
					if err := change.Run(t.Context()); err != nil {
						t.Fatal(err)
					}
					l.works(1, "after the change")
					return
				}
				err := change.Abort(t.Context())
				switch {
				case err == nil, err != nil && strings.Contains(err.Error(), "no change"):
					l.works(0, "after the change was taken back")
				case strings.Contains(err.Error(), "open already"):
					l.works(1, "after the change")
				default:
					t.Fatal(err)
				}
			})
		}
	}
}

// TestAbortKilled: so does the operator that takes a change back.
func TestAbortKilled(t *testing.T) {
	t.Parallel()
	for writes := range 8 {
		t.Run(fmt.Sprintf("after %d writes", writes), func(t *testing.T) {
			t.Parallel()
			_, change := changing(t, 4, 0, 1, 3)
			l := &load{t: t}
			l.start(0, change.From)
			l.works(0, "before")
			l.start(1, change.To)
			ctx, cancel := context.WithCancel(t.Context())
			closed := change
			closed.Say = func(string) { cancel() }
			if err := closed.Run(ctx); err == nil {
				t.Fatal("the change was not interrupted")
			}
			var done atomic.Int64
			killed := change
			killed.killed = func() bool { return done.Add(1) > int64(writes) }
			t.Log(killed.Abort(t.Context()))
			if err := change.Abort(t.Context()); err != nil && !strings.Contains(err.Error(), "no change") {
				t.Fatal(err)
			}
			l.works(0, "after the change was taken back")
			if err := change.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.works(1, "after the change")
		})
	}
}

// TestTwoOperators: changes to different nodes that meet do not both go on, and one that was taken back while its operator stood
// still writes nothing.
func TestTwoOperators(t *testing.T) {
	t.Parallel()
	all, mine := changing(t, 5, 0, 1, 3)
	opts := mine.Options
	l := &load{t: t}
	l.start(0, mine.From)
	l.works(0, "before")
	stays := openDriver(t, mine.From, opts)
	release(t, await(t, stays, lasting("stays", changeTTL)))
	other := Change{From: mine.From, To: pick(all, 0, 2, 4).url(), Options: opts}
	stands, goes := make(chan bool), make(chan bool)
	still := mine
	var once sync.Once
	still.Say = func(string) {
		once.Do(func() {
			stands <- true
			<-goes
		})
	}
	ended := make(chan error)
	go func() { ended <- still.Run(t.Context()) }()
	<-stands // its nodes are closed
	if g, err := stays.TryAcquire(t.Context(), lasting("stays", changeTTL)); err == nil || !strings.Contains(err.Error(), "while the nodes are changed, to ") {
		t.Errorf("TryAcquire while the nodes are changed = %v, %v; want an error that says so", g, err)
	}
	if err := other.Run(t.Context()); !errors.Is(err, ErrOtherChange) || !strings.Contains(err.Error(), all[3].Addr) {
		t.Errorf("another change = %v; want ErrOtherChange, and its nodes", err)
	}
	if err := mine.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.works(0, "after it was taken back")
	if !eventually(patience, func() bool {
		g, err := stays.TryAcquire(t.Context(), lasting("stays", changeTTL))
		if err == nil {
			g.Release(t.Context())
		}
		return err == nil
	}) {
		t.Error("a client that was there all the time gets nothing after the change was taken back")
	}
	goes <- true
	if err := <-ended; err == nil {
		t.Error("a change that was taken back ends well")
	}
	l.works(0, "after it went on")
	// Many at once: at most one target is served in the end.
	errs := make(chan error)
	for _, c := range []Change{mine, other, mine, other} {
		go func() { errs <- c.Run(t.Context()) }()
	}
	var done int
	for range 4 {
		if err := <-errs; err == nil {
			done++
		} else {
			t.Log(err)
		}
	}
	a, errA := openDriver(t, mine.To, opts).TryAcquire(t.Context(), lasting("a", changeTTL))
	b, errB := openDriver(t, other.To, opts).TryAcquire(t.Context(), lasting("a", changeTTL))
	if errA == nil && errB == nil && b.Since() < a.until { // else the first lease had ended, on a busy machine
		t.Error("clients of both new sets hold one name")
	}
	t.Logf("%d changes were made", done)
}
