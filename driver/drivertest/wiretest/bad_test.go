// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// mistake is what is wrong with a store that is memlock's but for that. A nil function makes no mistake.
type mistake struct {
	name  string
	found []string // by these checks

	private  bool               // each participant has a store of its own
	forgets  bool               // requests that arrive after the end of their lease are carried out
	caps     func(*driver.Caps) // changes them
	ask      func(ctx context.Context, w *badWire, r *driver.Request) (driver.Answer, error)
	asked    func(w *badWire, r *driver.Request, a *driver.Answer) // changes the answer
	renew    func(ctx context.Context, w *badWire, l driver.Ref, ttl time.Duration) (driver.Renewal, error)
	end      endFunc
	event    func(w *badWire, ev *driver.Event) (comes bool)
	hear     func(w *badWire, name string) (<-chan struct{}, func())
	inspect  func(*driver.Info, error) (*driver.Info, error)
	list     func(all []*driver.Info, prefix string) []*driver.Info
	breaks   func(w *badWire, name, lease string, by *driver.Holder, why string) error
	describe func() *driver.StoreInfo
	examine  func() []driver.Finding
	closes   func(*badWire)
	crash    func(*badWire)
	cut      func(w *badWire, r *driver.Request) error // what a request says that is cut off; r is nil for Renew
	restart  func(*badService)
}

// badService is a service of which the wires make a mistake.
type badService struct {
	m      *mistake
	store  *memlock.Store
	mu     sync.Mutex
	wires  []*badWire
	ended  map[string]bool     // leases that were ended by a client that was not sure of them
	of     map[string]*badWire // who has asked for a lease
	times  map[string]int      // how often something has happened, for mistakes
	first  map[string]driver.Answer
	last   map[string]string // the lease that had a name last, if it was not ended
	litter []string
}

func newBadService(m *mistake) *badService {
	return &badService{
		m: m, store: new(memlock.Store), ended: make(map[string]bool), of: make(map[string]*badWire),
		times: make(map[string]int), first: make(map[string]driver.Answer), last: make(map[string]string),
	}
}

// count returns how often it was called for what.
func (s *badService) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times[what]++
	return s.times[what]
}

// follow records that a lease has the name; "" is none.
func (s *badService) follow(name, lease string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[name] = lease
}

func (s *badService) lastOf(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[name]
}

// quietly runs f. Events that it causes are lost.
func (s *badService) quietly(f func()) {
	for _, w := range s.wires {
		w.mu.Lock()
		w.quiet = true
		w.mu.Unlock()
		defer func() { w.mu.Lock(); w.quiet = false; w.mu.Unlock() }()
	}
	f()
}

func (s *badService) service() Service {
	cut := func(set bool) func(testing.TB, driver.Store) {
		return func(_ testing.TB, w driver.Store) { w.(*badWire).setCut(set) }
	}
	return Service{
		Open: func(testing.TB) driver.Store { return s.open() },
		Crash: func(_ testing.TB, st driver.Store) {
			w := st.(*badWire)
			if s.m.crash != nil {
				s.m.crash(w)
				return
			}
			s.store.Crash(w.Store)
		},
		Restart: func(testing.TB) {
			if s.m.restart != nil {
				s.m.restart(s)
			}
		},
		Cut: cut(true), Heal: cut(false),
		Late: func(t testing.TB, w driver.Store, r *driver.Request) {
			if s.m.forgets || !s.ended[r.Lease] {
				_, _ = w.(*badWire).Store.Ask(t.Context(), r)
			}
		},
		Left: func(t testing.TB, prefix string) (left []string) {
			all, _ := s.store.Participant().List(t.Context(), prefix)
			for _, info := range all {
				left = append(left, info.Name)
			}
			return append(left, s.litter...)
		},
	}
}

// badWire is one participant.
type badWire struct {
	driver.Store // of memlock
	s            *badService
	tell         func(driver.Event)
	closed       chan struct{}
	shut         sync.Once

	mu     sync.Mutex
	healed chan struct{} // nil: it is not cut off
	deaf   map[string]bool
	quiet  bool
}

func (s *badService) open() *badWire {
	if s.m.private {
		s.store = new(memlock.Store)
	}
	w := &badWire{s: s, closed: make(chan struct{}), deaf: make(map[string]bool)}
	w.join()
	s.wires = append(s.wires, w)
	return w
}

// join makes w a participant of the present store.
func (w *badWire) join() {
	w.Store = w.s.store.Participant()
	w.Store.Listen(func(ev driver.Event) {
		if w.s.m.event == nil || w.s.m.event(w, &ev) {
			w.send(ev)
		}
	})
}

func (w *badWire) send(ev driver.Event) {
	w.mu.Lock()
	gone := w.quiet || w.healed != nil || w.deaf[ev.Name]
	w.mu.Unlock()
	if w.tell != nil && !gone {
		w.tell(ev)
	}
}

func (w *badWire) Listen(f func(driver.Event)) { w.tell = f }

func (w *badWire) setCut(cut bool) {
	w.mu.Lock()
	if cut {
		w.healed = make(chan struct{})
		w.mu.Unlock()
		return
	}
	close(w.healed)
	w.healed = nil
	w.mu.Unlock()
	w.tellMissed()
}

func (w *badWire) tellMissed() {
	ev := driver.Event{Kind: driver.Missed}
	if w.s.m.event == nil || w.s.m.event(w, &ev) {
		w.send(ev)
	}
}

// pass returns nil once a request may go on, and its error if it is cut off.
func (w *badWire) pass(ctx context.Context, r *driver.Request) error {
	w.mu.Lock()
	healed := w.healed
	w.mu.Unlock()
	if healed == nil {
		return nil
	}
	if w.s.m.cut != nil {
		if err := w.s.m.cut(w, r); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return &driver.Failure{Err: ctx.Err(), Maybe: true, Silent: true}
	case <-w.closed:
		return &driver.Failure{Err: errors.New("closed"), Lasting: true}
	}
}

func (w *badWire) Caps() driver.Caps {
	caps := w.Store.Caps()
	caps.SurvivesRestart = true
	if w.s.m.caps != nil {
		w.s.m.caps(&caps)
	}
	return caps
}

func (w *badWire) Ask(ctx context.Context, r *driver.Request) (ans driver.Answer, err error) {
	if err := w.pass(ctx, r); err != nil {
		return driver.Answer{}, err
	}
	w.s.mu.Lock()
	w.s.of[r.Lease] = w
	w.s.mu.Unlock()
	if w.s.m.ask != nil {
		ans, err = w.s.m.ask(ctx, w, r)
	} else {
		ans, err = w.Store.Ask(ctx, r)
	}
	if w.s.m.asked != nil && err == nil {
		w.s.m.asked(w, r, &ans)
	}
	return ans, err
}

func (w *badWire) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	if err := w.pass(ctx, nil); err != nil {
		return driver.Renewal{}, err
	}
	if w.s.m.renew != nil {
		return w.s.m.renew(ctx, w, l, ttl)
	}
	return w.Store.Renew(ctx, l, ttl)
}

func (w *badWire) End(ctx context.Context, l driver.Ref, how driver.End) (bool, error) {
	if err := w.pass(ctx, nil); err != nil {
		return false, err
	}
	w.s.mu.Lock()
	w.s.ended[l.Lease] = how.Doubt || how.Unsure
	w.s.mu.Unlock()
	if w.s.m.end != nil {
		return w.s.m.end(w, l, how)
	}
	return w.Store.End(ctx, l, how)
}

func (w *badWire) Hear(name string) (<-chan struct{}, func()) {
	if w.s.m.hear != nil {
		return w.s.m.hear(w, name)
	}
	return w.Store.Hear(name)
}

func (w *badWire) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	info, err := w.Store.Inspect(ctx, name)
	if w.s.m.inspect != nil {
		return w.s.m.inspect(info, err)
	}
	return info, err
}

func (w *badWire) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	if w.s.m.list != nil {
		all, err := w.Store.List(ctx, "")
		return w.s.m.list(all, prefix), err
	}
	return w.Store.List(ctx, prefix)
}

func (w *badWire) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	if w.s.m.breaks != nil {
		return w.s.m.breaks(w, name, lease, by, why)
	}
	return w.Store.Break(ctx, name, lease, by, why)
}

func (w *badWire) Describe(ctx context.Context) (*driver.StoreInfo, error) {
	if w.s.m.describe != nil {
		return w.s.m.describe(), nil
	}
	return w.Store.Describe(ctx)
}

func (w *badWire) Examine(ctx context.Context) []driver.Finding {
	if w.s.m.examine != nil {
		return w.s.m.examine()
	}
	return w.Store.Examine(ctx)
}

func (w *badWire) Close() error {
	w.shut.Do(func() {
		if w.s.m.closes != nil {
			w.s.m.closes(w)
		} else {
			close(w.closed)
		}
	})
	return w.Store.Close()
}

// info describes a name to a mistake.
func (w *badWire) info(name string) *driver.Info {
	info, _ := w.Store.Inspect(context.Background(), name)
	return info
}

// waits reports whether a lease waits for a name.
func (w *badWire) waits(name, lease string) bool {
	for _, waiter := range w.info(name).Waiters {
		if waiter.Lease == lease {
			return true
		}
	}
	return false
}
