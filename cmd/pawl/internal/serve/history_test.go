// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

// told returns the spans of a name that have ended and those that go on.
func told(s *Server, name string) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range s.all().Spans {
		if sp.Name == name {
			all = append(all, fmt.Sprintf("%s %s %.1fs", sp.What, sp.State, float64(sp.To-sp.From)/1000))
		}
	}
	return all
}

// TestHistory: what becomes of leases and waiters.
func TestHistory(t *testing.T) {
	bubble(t, func(t *testing.T, s *Server, store *memlock.Store) {
		l := open(t, store)
		w := s.watch()
		go func() {
			for range w {
			}
		}()
		defer func() { s.unwatch(w); close(w) }()
		time.Sleep(time.Second)
		held, err := l.Acquire(t.Context(), "held", pawl.TTL(9*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(t.Context(), "expired", pawl.TTL(9*time.Second), pawl.NoRenew()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		patient, hasty := open(t, store), open(t, store)
		go func() {
			if lease, err := patient.Acquire(t.Context(), "held"); err == nil {
				time.Sleep(2 * time.Second)
				_ = lease.Release(t.Context())
			}
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		go func() { _, _ = hasty.Acquire(ctx, "held", pawl.Why("hasty")) }()
		time.Sleep(6 * time.Second)
		if got := strings.Join(told(s, "expired"), "; "); !strings.HasPrefix(got, "lease overdue") {
			t.Errorf("a lease that is not renewed: %s", got)
		}
		time.Sleep(4 * time.Second)
		if got := strings.Join(told(s, "held"), "; "); strings.Count(got, "lease held") != 1 || strings.Count(got, "wait waiting") != 1 || strings.Count(got, "wait left") != 1 {
			t.Errorf("while it is held: %s", got)
		}
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if got := strings.Join(told(s, "held"), "; "); strings.Count(got, "lease ended") != 2 || strings.Count(got, "wait granted") != 1 || strings.Contains(got, "lease held") {
			t.Errorf("at the end: %s", got)
		}
		if got := strings.Join(told(s, "expired"), "; "); !strings.HasPrefix(got, "lease expired 9.") {
			t.Errorf("a lease that has expired: %s", got)
		}
	})
}
