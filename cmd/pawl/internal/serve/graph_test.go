// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/memlock"
)

// entangle has two clients hold a name each and wait for the other's. It returns the lease of
// the first.
func entangle(t *testing.T, clients [2]*pawl.Client, names [2]string) (first *pawl.Lease) {
	t.Helper()
	var leases [2]*pawl.Lease
	for i, c := range clients {
		lease, err := c.Acquire(t.Context(), names[i])
		if err != nil {
			t.Fatal(err)
		}
		leases[i] = lease
	}
	for i, c := range clients {
		go func() {
			_, _ = c.Acquire(t.Context(), names[1-i], pawl.Holding(names[i], leases[i].ID()), pawl.WaitInDeadlock())
		}()
	}
	return leases[0]
}

// TestDeadlockIsShown: after two answers in which it is, and no more when it has ended.
func TestDeadlockIsShown(t *testing.T) {
	bubble(t, func(t *testing.T, s *Server, store *memlock.Store) {
		defer watched(s)()
		first := entangle(t, [2]*pawl.Client{open(t, store), open(t, store)}, [2]string{"a", "b"})
		seen := func() [][]string {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.all().Stores[0].Deadlocks
		}
		time.Sleep(history.Every + history.Every/2)
		if got := seen(); got != nil {
			t.Errorf("seen once: %q", got)
		}
		time.Sleep(history.Every)
		if got := seen(); len(got) != 1 || !slices.Equal(slices.Sorted(slices.Values(got[0])), []string{"a", "b"}) {
			t.Errorf("seen twice: %q", got)
		}
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(2 * history.Every)
		if got := seen(); got != nil {
			t.Errorf("after it has ended: %q", got)
		}
	})
}

// TestOftenIsShown: a name whose leases follow each other, and none that is held.
func TestOftenIsShown(t *testing.T) {
	bubble(t, func(t *testing.T, s *Server, store *memlock.Store) {
		defer watched(s)()
		l := open(t, store)
		if _, err := l.Acquire(t.Context(), "steady"); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if err := l.Do(t.Context(), "leader", func(context.Context, *pawl.Lease) error { time.Sleep(370 * time.Millisecond); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if often := s.all().Stores[0].Often; len(often) != 1 || often["leader"] < history.Often {
			t.Errorf("shown are %v", often)
		}
	})
}
