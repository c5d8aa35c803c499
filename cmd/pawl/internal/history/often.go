// SPDX-License-Identifier: Apache-2.0

package history

import (
	"maps"
	"slices"
	"time"
)

const (
	// Lately is how long the begin of an exclusive lease is remembered.
	Lately = 10 * time.Second
	// A lock changes hands often if at least Often exclusive leases begin within Lately. For
	// the lock of a leader or a long job, that means trouble. For a lock of short jobs it is normal.
	Often = 4
)

// began notes that an exclusive lease has begun.
func (s *Store) began(name string, at time.Time) {
	if s.changes == nil {
		s.changes = map[string][]time.Time{}
	}
	s.changes[name] = append(s.changes[name], at)
}

// forget removes leases that began before Lately.
func (s *Store) forget(now time.Time) {
	for name, all := range s.changes {
		all = slices.DeleteFunc(all, func(at time.Time) bool { return now.Sub(at) > Lately })
		if s.changes[name] = all; len(all) == 0 {
			delete(s.changes, name)
		}
	}
}

// Changed reports whether an exclusive lease has begun lately.
func (s *Store) Changed() bool { return len(s.changes) > 0 }

// Changing returns, for each name that changes hands often, how many exclusive leases have begun
// lately.
func (s *Store) Changing() map[string]int {
	often := map[string]int{}
	for name, all := range s.changes {
		if len(all) >= Often {
			often[name] = len(all)
		}
	}
	return often
}

// Sorted returns the names of Changing in order.
func Sorted(often map[string]int) []string { return slices.Sorted(maps.Keys(often)) }
