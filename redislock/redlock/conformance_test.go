// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
	"github.com/pawl-go/pawl/internal/nodemodel"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// linked is a participant whose links to the masters can be cut. It has its own
// Node for each, so that others are not disturbed.
type linked struct {
	*store
	mu   sync.Mutex
	cut  bool
	tell func(nodewire.Message)
	mine map[string]bool // its leases
}

// openLinked opens a participant.
func openLinked(t testing.TB, all []*master, opts *Options) *linked {
	t.Helper()
	l := new(linked)
	var ns []nodewire.Node
	for _, m := range all {
		ns = append(ns, link{m, l})
	}
	var err error
	if l.store, err = newStore(t.Context(), ns, opts); err != nil {
		t.Fatal(err)
	}
	return l
}

// link is a Node whose requests are lost while its participant is cut off.
type link struct {
	*master
	of *linked
}

// carried carries out a request, unless the participant is cut off.
func carried[T any](ctx context.Context, l link, f func() (T, error)) (answer T, err error) {
	if l.of.isCut() {
		<-ctx.Done()
		return answer, ctx.Err()
	}
	return f()
}

func (l link) Propose(ctx context.Context, p nodewire.Proposal) (nodewire.Vote, error) {
	l.of.asks(p.Lease)
	return carried(ctx, l, func() (nodewire.Vote, error) { return l.master.Propose(ctx, p) })
}

func (l link) End(ctx context.Context, e nodewire.Ending) (had, next bool, err error) {
	had, err = carried(ctx, l, func() (had bool, err error) {
		had, next, err = l.master.End(ctx, e)
		return had, err
	})
	return had, next, err
}

func (l link) Enqueue(ctx context.Context, p nodewire.Place) (nodewire.State, error) {
	l.of.asks(p.Lease)
	return carried(ctx, l, func() (nodewire.State, error) { return l.master.Enqueue(ctx, p) })
}

func (l link) Read(ctx context.Context, names []string) ([]nodewire.State, error) {
	time.Sleep(time.Nanosecond) // a connection carries requests in order: endings behind a quorum come first
	return carried(ctx, l, func() ([]nodewire.State, error) { return l.master.Read(ctx, names) })
}

// Tell implements Node.
func (l link) Tell(f func(nodewire.Message)) {
	l.of.mu.Lock()
	l.of.tell = f
	l.of.mu.Unlock()
	l.master.Tell(l.of.told)
}

func (l *linked) told(m nodewire.Message) {
	l.mu.Lock()
	tell, cut, mine := l.tell, l.cut, m.Lease == "" || l.mine[m.Lease]
	l.mu.Unlock()
	if !cut && mine {
		tell(m)
	}
}

func (l *linked) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// setCut cuts the participant off, or heals its links: then nodes tell that messages may have been lost.
func (l *linked) setCut(cut bool) {
	l.mu.Lock()
	l.cut = cut
	l.mu.Unlock()
	l.told(nodewire.Message{})
}

func (l *linked) asks(lease string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mine == nil {
		l.mine = make(map[string]bool)
	}
	l.mine[lease] = true
}

// crash cuts the participant off for good. Nodes hand nothing to a client that does not hear them.
func (l *linked) crash(all []*master) {
	l.setCut(true)
	for _, m := range all {
		m.mu.Lock()
		m.Leave(func(w nodemodel.Waiter) bool { return l.mine[w.Lease] })
		m.mu.Unlock()
	}
}

// memoryWire is the wire of a participant.
type memoryWire struct {
	driver.Store
	links *linked
}

// except are the checks that the store does not pass, and why.
var except = map[string]string{
	"inspect-shows-holders-and-the-queue": "Inspect shows no readers that wait, and not since when",
}

// TestWireInMemory runs the suite on nodes in memory.
func TestWireInMemory(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			wiretest.Run(t, wiretest.Harness{
				Except: except,
				Bubble: synctest.Test,
				Golden: "testdata/wire-memory.txt",
				Start: func(testing.TB) wiretest.Service {
					all := masters(n)
					for _, m := range all {
						m.maxTTL = time.Hour
					}
					return wiretest.Service{
						Open: func(t testing.TB) driver.Store {
							opts := new(Options)
							opts.MaxTTL = time.Hour
							l := openLinked(t, all, opts)
							return &memoryWire{l.store, l}
						},
						Crash: func(t testing.TB, s driver.Store) {
							s.(*memoryWire).links.crash(all)
							t.Cleanup(func() { s.Close() }) // so that its goroutines end
						},
						Cut:  func(_ testing.TB, s driver.Store) { s.(*memoryWire).links.setCut(true) },
						Heal: func(_ testing.TB, s driver.Store) { s.(*memoryWire).links.setCut(false) },
					}
				},
			})
		})
	}
}
