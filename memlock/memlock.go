// SPDX-License-Identifier: Apache-2.0

// Package memlock keeps leases in memory, within one process.
//
// It serves two ends. It is the fake for the tests of whoever uses package
// pawl: inside a testing/synctest bubble leases expire in fake time. And it is
// the reference model: every other store is compared with it by package
// drivertest, so it is written to be read. A mutex and a clock are all it has;
// there is no goroutine and no timer per lease.
//
// Leases do not survive the process, and their tokens begin at 1 again with
// every Store. Do not use it for work that a second process may do too.
package memlock

import (
	"context"
	"fmt"
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

	mu    sync.Mutex // guards all below, and every lock, grant and waiter
	locks map[string]*lock
}

// Driver returns a new participant. Participants exclude each other as separate
// processes would.
func (s *Store) Driver() driver.Driver {
	return &participant{store: s, done: make(chan struct{})}
}

// Crash makes d, which must be a participant of s, as good as killed: each
// further call on it or on its grants returns driver.ErrUnavailable and does
// nothing. Its leases stay until they expire; with NoExpiry they end at once,
// as those of a dead process do.
func (s *Store) Crash(d driver.Driver) {
	p, ok := d.(*participant)
	if !ok || p.store != s {
		panic("memlock: Crash of a driver that is not a participant of this store")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.crashed = true
	p.close()
	now := driver.Now()
	for _, l := range s.locks {
		l.dropWaiters(p, now)
		s.settle(l, now)
		if s.NoExpiry {
			l.holders = slices.DeleteFunc(l.holders, func(g *grant) bool { return g.owner == p })
			l.admit(now)
		}
	}
}

// participant is one Driver.
type participant struct {
	store   *Store
	done    chan struct{} // closed by Close and Crash, to wake its waiters
	closed  bool          // done is closed
	crashed bool
}

var (
	_ driver.Queuer    = (*participant)(nil)
	_ driver.Inspector = (*participant)(nil)
	_ driver.Recaller  = (*participant)(nil)
)

// Guarantees implements driver.Driver.
func (p *participant) Guarantees() driver.Guarantees {
	return driver.Guarantees{Fencing: true, FIFO: true, Expiry: !p.store.NoExpiry, Shared: true, Slots: true}
}

// Close implements driver.Driver. Grants that are still held stay so, and can
// still be released; waiters give up.
func (p *participant) Close() error {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	p.close()
	return nil
}

func (p *participant) close() {
	if !p.closed {
		p.closed = true
		close(p.done)
	}
}

// TryAcquire implements driver.Driver.
func (p *participant) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := p.usable(ctx); err != nil {
		return nil, err
	}
	now := driver.Now()
	l := s.lock(req.Name)
	g, err := s.ask(p, l, req, now)
	switch {
	case err != nil:
		return nil, err
	case g == nil:
		l.recall(driver.Asks)
		return nil, &driver.HeldError{Info: l.info(now, false)}
	}
	return g.shown(), nil
}

// Acquire implements driver.Queuer.
func (p *participant) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	s := p.store
	s.mu.Lock()
	if err := p.usable(ctx); err != nil {
		s.mu.Unlock()
		return nil, err
	}
	now := driver.Now()
	l := s.lock(req.Name)
	g, err := s.ask(p, l, req, now)
	switch {
	case err != nil:
		s.mu.Unlock()
		return nil, err
	case g != nil:
		s.mu.Unlock()
		return g.shown(), nil
	}
	l.recall(driver.Waits)
	w := l.enqueue(p, req, now)
	s.mu.Unlock()
	return w.wait(ctx)
}

// usable returns why p cannot take a new lease, if it cannot.
func (p *participant) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.closed {
		return fmt.Errorf("%w: memlock: %w", driver.ErrUnavailable, driver.ErrClosed)
	}
	return nil
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
