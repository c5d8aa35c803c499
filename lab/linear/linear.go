// SPDX-License-Identifier: Apache-2.0

// Package linear checks that the histories of a store are linearizable (Herlihy and Wing,
// Linearizability, 1990). It records what clients of package pawl do with a store, with leases
// of all kinds that the store supports. Then porcupine searches for an order of the calls that
// the contract of package driver allows, and in which each call takes effect at one moment
// between its beginning and its end.
//
// In one run nothing fails. In a second, clients are cut off, requests and answers are
// lost or late, and leases expire. In a third, the server restarts, if the harness can
// do that and the store grants again within a few seconds. Each name is checked by itself.
//
// The package checks the following:
//
//   - Leases hold a name together only if their kinds allow it.
//   - Tokens grow in the order of the grants.
//   - A lease is held for as long as its holder trusts it, unless it is broken, and is never
//     held again after its end.
//   - If no other call is under way, a caller is refused only because somebody holds the name.
//   - At the end, no lease is left.
//
// It does not check the order in which waiters are served. The suite of package wiretest
// does that.
//
// LINEAR_OPERATIONS sets about how many calls the run without faults makes; the default is
// 10,000. The other runs make a quarter of that.
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
	perName = 400 // calls on each name; each makes less than two operations
	clients = 3
	workers = 5 // for each name

	// patience is how long the search for one name may take. If no call ends for so long, the
	// run has failed.
	patience = time.Minute

	// restartable is the longest quarantine after a restart with which Run includes the run
	// with a restart.
	restartable = 5 * time.Second
)

// Run records and checks runs on the store of h. It uses the fields Start, TTL, Slack and
// Recovery of h, and all fields of the service except Crash.
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
	for _, c := range []struct {
		name    string
		calls   int
		trouble func(*run, context.Context)
	}{
		{"calm", calls, nil},
		{"faults", calls / 4, (*run).breakLinks},
		{"restart", calls / 4, (*run).restart},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.name == "restart" && h.Recovery > restartable {
				t.Skipf("the store grants nothing for %v after a restart", h.Recovery)
			}
			r := start(t, h)
			if c.name == "restart" && r.service.Restart == nil {
				t.Skip("the harness cannot restart the store")
			}
			r.record(c.calls, c.trouble)
			r.check()
		})
	}
}

// run is one run with its clients and histories.
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
	// downgrades is set if an exclusive lease can become a shared one.
	downgrades bool

	clock  clock
	calls  atomic.Int64
	failed atomic.Int64 // attempts without an answer
}

// start starts the service and opens the clients.
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

// kinds returns the kinds of leases for the i-th name: exclusive alone, or with shared, with
// slots, or with both, as far as the store supports them.
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

// record lets workers make about as many calls as calls says. If trouble is not nil, it runs
// beside them, and they stop when it returns.
func (r *run) record(calls int, trouble func(*run, context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i := range max(1, calls/perName) {
		// A break of a kept lease can succeed after its holder has released it. So workers break no
		// leases on names with kept leases.
		kept := r.recalls && i%2 == 1
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
		trouble(r, ctx)
		cancel() // a caller may still wait for a holder that has been cut off
	} else {
		ended := make(chan struct{})
		go func() { all.Wait(); close(ended) }()
		r.watch(ended)
		cancel()
	}
	all.Wait()
	r.finish()
}

// watch returns when all calls have ended, or fails the test if no call has ended for patience. It
// sets no limit for all calls together, because the machine may be busy.
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

// finish checks that no lease is left: every name can be acquired.
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

// halfBroken reports whether a break may be the reason why the store no longer had g: the
// break began before the release of g returned. On a store whose requests have no order, some nodes
// carry out the break first and others the release, so both may find the lease gone.
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
