// SPDX-License-Identifier: Apache-2.0

// Package memlock keeps leases in memory, within one process.
//
// It has two uses. Tests of programs that use package pawl open it as their store; in a testing/synctest bubble
// its leases expire in fake time. It is also the reference for other stores, written to be read: a mutex and a
// clock, without a goroutine or a timer for each lease.
//
// Leases end with the process, and in every Store tokens begin at 1. Do not use it for work that a second process
// may also do.
package memlock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// Store contains leases. The zero value is ready to use. A Store must not be copied. It remembers the last token
// of every name that it has ever granted.
type Store struct {
	// NoExpiry makes leases last until they are released or broken, or until their participant has crashed, as in
	// a store of files. Set it before the first use.
	NoExpiry bool

	mu    sync.Mutex // guards the locks, and every lock, holder and waiter
	locks map[string]*lock
}

// Participant returns a new participant. Participants exclude each other as separate
// processes would.
func (s *Store) Participant() driver.Store { return &wire{store: s, tell: func(driver.Event) {}} }

// Crash ends p, which must be a participant of s, as SIGKILL ends a process: each further request of p fails and
// does nothing. Its leases stay until they expire. With NoExpiry they end at once.
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
		l.queue = slices.DeleteFunc(l.queue, func(o *waiter) bool { return o.owner == w })
		if s.NoExpiry {
			l.holders = slices.DeleteFunc(l.holders, func(h *holder) bool { return h.owner == w })
		}
		s.settle(l, now)
		l.admit(now)
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

// Open returns a client on a new store, which no other client can reach. It returns an error that wraps
// errors.ErrUnsupported if o.Require asks for more than memory can give.
func Open(o *pawl.Options) (*pawl.Client, error) { return new(Store).Open(o) }

// Open returns a client that is a new participant in s. It returns the errors
// of pawl.New.
func (s *Store) Open(o *pawl.Options) (*pawl.Client, error) { return pawl.New(s.Participant(), o) }

func init() { pawl.Register("mem", openByURL) }

// named contains the stores of URLs with a name, by name.
var named sync.Map

// openByURL opens mem:, a new store that no other client can reach, or mem://name, the store with that name in
// this process.
func openByURL(_ context.Context, url string, _ *pawl.Options) (driver.Store, error) {
	_, name, _ := strings.Cut(url, ":")
	name = strings.TrimPrefix(name, "//")
	if strings.ContainsAny(name, "/?#@") {
		return nil, errors.New("memlock: this is neither mem: nor a URL like mem://name")
	}
	if name == "" {
		return new(Store).Participant(), nil
	}
	s, _ := named.LoadOrStore(name, new(Store))
	return s.(*Store).Participant(), nil
}
