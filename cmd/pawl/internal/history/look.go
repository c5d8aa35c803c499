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
	// Every is how often a store is asked while somebody looks.
	Every = time.Second
	// Patience is for how long. A store that has not answered then is away.
	Patience = 10 * time.Second
	// Asking a store takes at most one share-th of the time: a list scans all keys of a Redis server.
	share = 10
)

// Look is what a store has told.
type Look struct {
	At    time.Time
	Took  time.Duration
	Infos []*pawl.Info
	State *report.State
	Err   error
}

// Ask asks a store once: for the locks by list, and how it is.
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

// Answered reports whether the store answered. Some records may be unreadable all the same.
func (l *Look) Answered() bool {
	_, only := driver.Unread(l.Err)
	return l.Err == nil || only
}

// unread reports whether the record of a name cannot be read.
func (l *Look) unread(name string) bool {
	damaged, _ := driver.Unread(l.Err)
	return slices.ContainsFunc(damaged, func(e *driver.UnreadError) bool { return e.Name == name })
}

// Pace returns the time between the starts of this look and the next one. A store that was away is soon asked again:
// that a look took long says nothing of the work that it was.
func (l *Look) Pace() time.Duration {
	pace := max(Every, share*l.Took)
	if !l.Answered() {
		pace = min(pace, 2*Patience)
	}
	return pace
}

// Store is what is known of a store.
type Store struct {
	Name  string
	Asked time.Time // when it answered last
	Locks map[string]*Lock
	State *report.State // nil: it has none
	Shut  *Span         // a quarantine that goes on

	Deadlocks [][]pawl.Blocked // in the last two answers

	last    []*pawl.Info           // the last answer
	changes map[string][]time.Time // when exclusive leases of a name have begun lately
}

// Lock is what is known of a name.
type Lock struct {
	report.Lock
	Spans map[string]*Span // that go on

	nameless map[string]bool // waiters of the last look without a name
}

// Take updates s with a look. It returns the spans that began, changed or ended since the look before, and
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
	if l.Answered() { // else what is missing was not read
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
