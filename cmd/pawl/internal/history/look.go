// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/driver"
)

const (
	// Every is the time between two looks at a store that answers fast.
	Every = time.Second
	// Patience is how long a look may take. A store that has not answered by then is unavailable.
	Patience = 10 * time.Second
	// Looks take at most 1/share of the time, because a list scans all keys of a Redis server.
	share = 10
)

// Look is the answer of a store to Ask.
type Look struct {
	At    time.Time
	Took  time.Duration
	Infos []*pawl.Info
	State *report.State
	Err   error
}

// Ask asks a store once: for its locks, which list returns, and for its state.
func Ask(ctx context.Context, client *pawl.Client, list func(context.Context) ([]*pawl.Info, error)) (l Look) {
	began := time.Now()
	defer func() { l.At, l.Took = time.Now(), time.Since(began) }()
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if l.Infos, l.Err = list(ctx); !l.Answered() {
		return l
	}
	info, err := client.Store(ctx)
	switch {
	case err == nil:
		l.State = report.StateOf(info)
	case !errors.Is(err, errors.ErrUnsupported):
		l.Err = err
	}
	return l
}

// Answered reports whether the store answered. It may have answered with unreadable records.
func (l *Look) Answered() bool {
	_, only := driver.Unread(l.Err)
	return l.Err == nil || only
}

// unread reports whether the record of a name cannot be read.
func (l *Look) unread(name string) bool {
	damaged, _ := driver.Unread(l.Err)
	return slices.ContainsFunc(damaged, func(e *driver.UnreadError) bool { return e.Name == name })
}

// Pace returns the time between the starts of this look and the next one. If the store did not answer, the next look
// is soon: such a look takes long because of timeouts, and not because it is much work for the store.
func (l *Look) Pace() time.Duration {
	pace := max(Every, share*l.Took)
	if !l.Answered() {
		pace = min(pace, 2*Patience)
	}
	return pace
}

// Store is what the looks have told about a store.
type Store struct {
	Name  string
	Asked time.Time // when it answered last
	Locks map[string]*Lock
	State *report.State // nil: the store has no state
	Shut  *Span         // the quarantine that goes on, or nil

	Deadlocks [][]pawl.Blocked // that were in both of the last two answers

	last    []*pawl.Info           // the last answer
	changes map[string][]time.Time // by name: when the latest exclusive leases began
}

// Lock is what the looks have told about a name.
type Lock struct {
	report.Lock
	Spans map[string]*Span // the leases and waits that go on

	nameless map[string]bool // keys of the waiters that had neither lease nor person in the last look
}

// Take updates s with a look. It returns the spans that began, changed or ended since the last look, and
// the names that nobody holds or waits for any more.
func (h *History) Take(s *Store, l *Look) (news []*Span, gone []string) {
	if s.Locks == nil {
		s.Locks = map[string]*Lock{}
	}
	s.forget(l.At)
	for _, info := range l.Infos {
		lock := s.Locks[info.Name]
		if lock == nil {
			lock = &Lock{Spans: map[string]*Span{}}
			s.Locks[info.Name] = lock
		}
		lock.Lock = report.LockOf(info)
		news = append(news, h.follow(s, lock, l.At)...)
	}
	if l.Answered() { // otherwise a missing name may still have a lock
		gone = slices.DeleteFunc(s.missing(l.Infos), l.unread)
		for _, name := range gone {
			lock := s.Locks[name]
			lock.Holders, lock.Waiters = nil, nil
			news = append(news, h.follow(s, lock, l.At)...)
			delete(s.Locks, name)
		}
		s.Asked, s.State = l.At, l.State
		s.Deadlocks, s.last = pawl.Deadlocks(s.last, l.Infos), l.Infos
	}
	return append(news, h.closed(s, l.At)...), gone
}

// missing returns the known names that infos lacks.
func (s *Store) missing(infos []*pawl.Info) []string {
	gone := maps.Clone(s.Locks)
	for _, info := range infos {
		delete(gone, info.Name)
	}
	return slices.Sorted(maps.Keys(gone))
}

// Names returns the names of the locks in order.
func (s *Store) Names() []string { return slices.Sorted(maps.Keys(s.Locks)) }

// Spans returns the spans that go on.
func (s *Store) Spans() (all []*Span) {
	for _, name := range s.Names() {
		for _, sp := range s.Locks[name].Spans {
			all = append(all, sp)
		}
	}
	if s.Shut != nil {
		all = append(all, s.Shut)
	}
	return all
}

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
