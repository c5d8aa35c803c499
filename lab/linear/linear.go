// SPDX-License-Identifier: Apache-2.0

// Package linear checks that what clients of a store see could have happened one after
// the other. It records real runs of package pawl on the store, with leases of all
// kinds that it has, and has porcupine look for an order of what they did in which each
// call takes effect at one moment between its beginning and its end, and which the
// contract of package driver allows (Herlihy and Wing, Linearizability, 1990).
//
// In one run nothing fails. In another, clients are cut off, requests and answers are
// lost or late, and leases expire. In a third, the server restarts, if the harness can
// do that and the store is back in a few seconds. Each name is checked by itself.
//
// It checks that only leases that fit hold a name together; that tokens grow in the
// order of the grants; that a lease is held for as long as its holder trusts it, unless
// it was broken, and never again after its end; that a caller is refused only because
// of a holder, if no other call is under way; and that nothing is left at the end. It
// does not check the order in which waiters are served; the suite of package wiretest
// does.
//
// LINEAR_OPERATIONS is about how many calls to make in each run: 10,000 where nothing
// fails unless set.
package linear

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
)

const (
	perName = 400 // calls; there are less than twice as many operations
	clients = 3
	workers = 5 // for each name

	// patience is how long the search may take for one name, and for how long no call
	// at all may end.
	patience = time.Minute

	// restartable is how long a store may refuse to grant after a restart, so that
	// there is a run with one.
	restartable = 5 * time.Second
)

// Run records runs on the store of h, and checks them. Of h it uses Start, TTL, Slack,
// Recovery, and of Store all but Crash.
func Run(t *testing.T, h wiretest.Harness) {
	if h.TTL == 0 {
		h.TTL = time.Second
	}
	calls := 10000
	if s := os.Getenv("LINEAR_OPERATIONS"); s != "" {
		var err error
		if calls, err = strconv.Atoi(s); err != nil || calls <= 0 {
			t.Fatalf("LINEAR_OPERATIONS is %q: set it to a positive number", s)
		}
	}
	t.Run("calm", func(t *testing.T) {
		t.Parallel()
		r := start(t, h)
		r.record(calls, nil)
		r.check()
	})
	t.Run("faults", func(t *testing.T) {
		t.Parallel()
		r := start(t, h)
		r.record(calls/4, r.breakLinks)
		r.check()
	})
	t.Run("restart", func(t *testing.T) {
		t.Parallel()
		if h.Recovery > restartable {
			t.Skipf("the store grants nothing for %v after a restart", h.Recovery)
		}
		r := start(t, h)
		if r.service.Restart == nil {
			t.Skip("the harness cannot restart the store")
		}
		r.record(calls/4, r.restart)
		r.check()
	})
}

// run is one run.
type run struct {
	t       testing.TB
	h       wiretest.Harness
	service wiretest.Service
	stores  []driver.Store
	links   []*drivertest.Faulty
	clients []*pawl.Client
	names   []*history

	conditions
	ttl       time.Duration
	inspector bool
	recalls   bool
	// downgrades: an exclusive lease can become a shared one.
	downgrades bool

	clock  clock
	calls  atomic.Int64
	failed atomic.Int64 // attempts without an answer
}

// start opens the clients.
func start(t testing.TB, h wiretest.Harness) *run {
	r := &run{t: t, h: h, service: h.Start(t), ttl: h.TTL}
	for i := range clients {
		s := r.service.Open(t)
		caps := s.Caps()
		r.inspector, r.recalls, r.downgrades, r.sure = caps.Shows, caps.Keeps, caps.Downgrades, caps.Guarantees
		link := drivertest.NewFaulty(s)
		c, err := pawl.New(link, &pawl.Options{TTL: h.TTL, Holder: pawl.Holder{Who: fmt.Sprint("client ", i)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Logf("Close: %v", err)
			}
		})
		r.stores, r.links, r.clients = append(r.stores, s), append(r.links, link), append(r.clients, c)
	}
	return r
}

// kinds returns what is asked for on the i-th name: exclusive leases only, or one or
// all of the other kinds besides, as far as the store has them.
func (r *run) kinds(i int) []kind {
	all := []kind{exclusive}
	if r.sure.Shared && i%4 != 0 && i%4 != 2 {
		all = append(all, shared, shared)
	}
	if r.sure.Slots && i%4 >= 2 {
		all = append(all, 2, 2, 3)
	}
	return all
}

// record has workers make about so many calls. Beside them, trouble makes trouble; they
// stop when it has ended.
func (r *run) record(calls int, trouble func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i := range max(1, calls/perName) {
		kept := r.recalls && i%2 == 1 // what is kept can be broken after its holder has released it
		r.names = append(r.names, &history{
			name: fmt.Sprintf("linear-%d-%d", time.Now().UnixNano(), i), kinds: r.kinds(i), waited: i%8 >= 3, broken: i%3 > 0 && !kept, kept: kept, left: perName,
		})
	}
	r.calm = trouble == nil
	var all sync.WaitGroup
	for _, h := range r.names {
		for w := range workers {
			all.Go(func() { r.work(ctx, h, w, r.clients[w%clients]) })
		}
	}
	if trouble != nil {
		trouble(ctx)
		cancel() // a caller may still wait for a holder that is gone
	} else {
		ended := make(chan struct{})
		go func() { all.Wait(); close(ended) }()
		r.watch(ended)
		cancel()
	}
	all.Wait()
	r.finish()
}

// watch returns when all calls have ended, or when none has ended for a while. It does
// not limit the time of all calls together, as the machine may be busy.
func (r *run) watch(ended <-chan struct{}) {
	for last := int64(-1); ; {
		select {
		case <-ended:
			return
		case <-time.After(patience):
		}
		n := r.calls.Load()
		if n == last {
			r.t.Errorf("no call has ended for %v: somebody waits who should not", patience)
			return
		}
		last = n
	}
}

// finish checks that nothing is left: every name can be had by one.
func (r *run) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*r.ttl+r.h.Recovery+20*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for _, h := range r.names {
		all.Go(func() {
			at := span{call: r.clock.now()}
			l, err := r.clients[0].Acquire(ctx, h.name)
			at.ret = r.clock.now()
			if err != nil {
				r.t.Errorf("%q: something is left of it, as it cannot be acquired at the end: %v", h.name, err)
				return
			}
			r.give(h, h.attempt(at, workers, exclusive, l, nil))
		})
	}
	all.Wait()
}

// halfBroken reports whether a break that began before the release of g had ended may
// be the reason why the store no longer had it. Where requests have no order, some
// nodes carry out the break and others the release, so that each of the two may find
// the lease gone.
func (r *run) halfBroken(g *held) bool {
	return !r.sure.FIFO && slices.ContainsFunc(g.misses, func(b span) bool { return b.call < g.over })
}

// check checks each name by itself.
func (r *run) check() {
	began, n, did := time.Now(), 0, make(map[action]int)
	var all sync.WaitGroup
	for _, h := range r.names {
		ops := h.operations(r.conditions)
		n += len(ops)
		for _, o := range ops {
			did[o.do]++
		}
		all.Go(func() {
			if err := check(ops, r.sure.Fencing, patience); err != nil {
				r.t.Errorf("%q: %v", h.name, err)
			}
		})
		for _, g := range h.known {
			if g.early && g.breaks == nil && !r.halfBroken(g) && (!r.restarted || r.sure.SurvivesRestart) {
				r.t.Errorf("%q: the store has ended #%d, token %d, before its time", h.name, g.n, g.Token())
			}
		}
	}
	all.Wait()
	r.t.Logf("%d calls on %d names, %d attempts without an answer; %d operations checked in %v: %v", r.calls.Load(), len(r.names),
		r.failed.Load(), n, time.Since(began).Round(time.Millisecond), did)
	if r.calm && did[granted] < len(r.names)*perName/20 {
		r.t.Errorf("only %d leases were granted: this shows nothing", did[granted])
	}
}
