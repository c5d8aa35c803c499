// SPDX-License-Identifier: Apache-2.0

// Package memlock keeps leases in memory, within one process.
//
// It has two uses. Tests of programs that use package pawl open it as their store: in
// a testing/synctest bubble its leases expire in fake time. And it is the reference
// for other stores, written to be read: a mutex and a clock, without goroutines or
// timers for each lease.
//
// Leases end with the process, and tokens begin at 1 again in every Store. Do not use
// it for work that a second process may do too.
package memlock

import (
	"slices"
	"sync"

	"github.com/pawl-go/pawl/driver"
)

// Store holds leases. The zero value is ready to use. A Store must not be
// copied, and remembers the last token of every name it has ever granted.
type Store struct {
	// NoExpiry makes a store whose leases have no end of their own, such as
	// files: they last until they are released or broken, or until their
	// participant has crashed. Set it before first use.
	NoExpiry bool

	mu      sync.Mutex // guards all below, and every lock, holder and waiter
	locks   map[string]*lock
	waiters map[string]*waiter // by lease
}

// Participant returns a new participant. Participants exclude each other as separate
// processes would.
func (s *Store) Participant() driver.Store { return &wire{store: s, tell: func(driver.Event) {}} }

// Crash ends p, which must be a participant of s, as SIGKILL ends a process: each
// further request of p fails and does nothing. Its leases stay until they expire;
// with NoExpiry they end at once.
func (s *Store) Crash(p driver.Store) {
	w, ok := p.(*wire)
	if !ok || w.store != s {
		panic("memlock: Crash of what is not a participant of this store")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.crashed = true
	now := driver.Now()
	for _, l := range s.locks {
		l.dropWaiters(w, now)
		s.settle(l, now)
		if s.NoExpiry {
			l.holders = slices.DeleteFunc(l.holders, func(h *holder) bool { return h.owner == w })
			l.admit(now)
		}
	}
}

func (s *Store) lock(name string) *lock {
	l := s.locks[name]
	if l == nil {
		if s.locks == nil {
			s.locks = make(map[string]*lock)
		}
		l = &lock{name: name}
		s.locks[name] = l
	}
	return l
}
