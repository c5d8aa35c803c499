// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// TestSilentNode: one node of three takes requests and never answers. No call waits for
// it, requests to it do not pile up, and when it answers again it gets all endings.
func TestSilentNode(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		silent := all[2]
		silent.set(func(op string) fault { // proposals are carried out, endings are not
			return fault{silent: true, lost: op == "end"}
		})
		before := runtime.NumGoroutine()
		most := 0
		for range 500 {
			began := driver.Now()
			g := get(t, d, request())
			renew(t, g, 10*time.Second)
			release(t, g)
			elapsed(t, began, 0)
			most = max(most, runtime.NumGoroutine()-before)
			time.Sleep(20 * time.Millisecond)
		}
		_, peak := silent.load()
		t.Logf("at most %d requests to the node, %d goroutines; %d endings owed", peak, most, d.members[2].debtCount())
		if peak > 400 || most > 600 {
			t.Errorf("%d requests to the silent node at once, %d goroutines", peak, most)
		}
		time.Sleep(d.last(d.ttl))
		if inside, _ := silent.load(); inside > silentBusy+1 {
			t.Errorf("%d requests to the silent node are still under way", inside)
		}
		if n := d.members[2].debtCount(); n == 0 || n > maxDebts {
			t.Errorf("%d endings are owed", n)
		}
		silent.set(nil)
		time.Sleep(2 * time.Second) // less than the TTL
		free(t, all, "")
		if n := d.members[2].debtCount(); n != 0 {
			t.Errorf("%d endings are still owed", n)
		}
	})
}

// TestDebtsAreBounded: a node that never comes back costs little memory.
func TestDebtsAreBounded(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		m := d.members[0]
		all[0].set(always(fault{lost: true}))
		for range maxDebts + 10 {
			m.owe(nodewire.Ending{Name: name, Lease: request().Lease}, time.Second)
		}
		if n := m.debtCount(); n != maxDebts {
			t.Errorf("%d debts; want %d", n, maxDebts)
		}
		time.Sleep(2 * time.Minute)
		if n := m.debtCount(); n != 0 {
			t.Errorf("%d debts of leases that have expired", n)
		}
	})
}

func (m *member) debtCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.debts)
}

// load returns how many requests are under way, and were at most.
func (m *master) load() (inside, most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inside, m.most
}

// refusing is a node without memory for the mark of one lease.
type refusing struct {
	*master
	lease string
}

func (r refusing) End(ctx context.Context, e nodewire.Ending) (bool, bool, error) {
	if e.Lease == r.lease {
		return false, false, unavailable(errors.New("OOM command not allowed"))
	}
	return r.master.End(ctx, e)
}

// TestRefusedEnding: an ending that the node refuses does not keep the others back.
func TestRefusedEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		m := start(t, all, nil).members[0]
		m.Node = refusing{all[0], "refused"}
		for _, lease := range []string{"refused", "a", "b"} {
			m.owe(nodewire.Ending{Name: name, Lease: lease, Bar: true}, time.Second)
		}
		time.Sleep(3 * time.Second)
		if n := m.debtCount(); n != 1 {
			t.Errorf("%d endings are owed; want that which is refused", n)
		}
	})
}

// TestShortLease: one node of three is slow, and the lease is released before that has
// answered. It is told then, and remembers nothing. If it does not answer in time it is
// told as well, and remembers the end.
func TestShortLease(t *testing.T) {
	for _, slow := range []time.Duration{20 * time.Millisecond, 10 * time.Second} {
		withStore(t, 3, func(t *testing.T, all []*master, d *store) {
			all[2].set(only("propose", fault{after: slow}))
			g := get(t, d, request())
			release(t, g)
			time.Sleep(2 * silence)
			free(t, all, "")
			all[2].mu.Lock()
			n := len(all[2].Name(name).Ended)
			all[2].mu.Unlock()
			if late := slow > silence; n > 0 != late {
				t.Errorf("after %v the node remembers %d leases", slow, n)
			}
			time.Sleep(slow) // until its answer comes
		})
	}
}
