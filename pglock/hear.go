// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/driver/storekit"
)

// errPooled: the connection leads to a pooler, through which no messages come.
var errPooled = errors.New("there is nothing to listen on")

// session is one connection that listens, from its beginning to its end. 0 is none.
type session int

// ear is the connection that listens. It is made for the first waiter, or the first lease
// that wants to know of its end, and stays. While it is there it has a lock by which the
// server knows that messages arrive.
type ear struct {
	config *pgconn.Config // nil: that of the pool

	mu      sync.Mutex
	started bool
	opened  session
	is      session       // 0 while there is none
	pooled  bool          // there will be none
	err     error         // of the last attempt
	change  chan struct{} // closed when one of these changes
	cut     context.CancelFunc
}

func (e *ear) listening() bool { return e.session() != 0 }

func (e *ear) session() session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.is
}

// deaf reports whether no message will ever come.
func (e *ear) deaf() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pooled
}

// start starts the listener if it does not run yet.
func (e *ear) start(s *store) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started || s.ctx.Err() != nil {
		return
	}
	e.started = true
	e.change = make(chan struct{})
	s.work.Go(func() { s.listenOn() })
}

// open returns when messages can be heard, or why they cannot.
func (e *ear) open(ctx context.Context, s *store) error {
	e.start(s)
	for {
		e.mu.Lock()
		is, pooled, err, change := e.is, e.pooled, e.err, e.change
		e.mu.Unlock()
		switch {
		case is != 0:
			return nil
		case pooled:
			return errPooled
		case err != nil:
			return err
		}
		select {
		case <-change:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return unavailable(errClosed)
		}
	}
}

// set records what has become of the connection.
func (e *ear) set(is session, pooled bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.is, e.pooled, e.err = is, pooled, err
	close(e.change)
	e.change = make(chan struct{})
}

// again drops the connection, which leads to the server that was.
func (e *ear) again() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.is = 0
	if e.cut != nil {
		e.cut()
	}
}

func (e *ear) close() { e.again() }

// listenOn listens until the store is closed, and connects again after each failure.
func (s *store) listenOn() {
	const minPause = 10 * time.Millisecond
	for pause := minPause; s.ctx.Err() == nil; {
		heard, err := s.listenOnce()
		if heard {
			pause = minPause
		}
		s.ear.set(0, errors.Is(err, errPooled), err)
		s.unheard()
		if errors.Is(err, errPooled) {
			return
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-s.ctx.Done():
		}
		pause = min(2*pause, maxPause)
	}
}

// pulse is how often the listener makes sure that its connection is alive.
const pulse = 5 * time.Second

// listenOnce listens on one connection, until it fails.
func (s *store) listenOnce() (heard bool, err error) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.ear.mu.Lock()
	s.ear.cut = cancel
	s.ear.opened++
	is := s.ear.opened
	config := s.ear.config
	s.ear.mu.Unlock()
	if config == nil {
		config = s.pool.config
	}
	c, err := s.pool.dial(ctx, config, func(_ *pgconn.PgConn, n *pgconn.Notification) { s.hear(is, n.Payload) })
	if err != nil {
		return false, dialFailure(err).err
	}
	defer closeAll([]*conn{c})
	if c.pooled {
		return false, errPooled
	}
	// The lock may still be that of the connection before, if the server does not know
	// yet that it is gone: the client says so.
	rctx, done := context.WithTimeout(ctx, requestTimeout)
	defer done()
	listen := fmt.Sprintf(`LISTEN "pawl:%[1]s"; SELECT pg_catalog.pg_advisory_lock_shared(pg_catalog.hashtextextended('pawl:%[1]s', 0))`, s.id)
	if err := c.Exec(rctx, listen).Close(); err != nil {
		return false, s.classify(ctx, err).err
	}
	s.ear.set(is, false, nil)
	s.opened()
	for {
		wctx, cancel := context.WithTimeout(ctx, pulse)
		err := c.WaitForNotification(wctx)
		late := wctx.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil {
			continue
		}
		if !late {
			return true, s.classify(ctx, err).err
		}
		pctx, cancel := context.WithTimeout(ctx, requestTimeout)
		err = c.Exec(pctx, "").Close()
		cancel()
		if err != nil {
			return true, s.classify(ctx, err).err
		}
	}
}

// opened makes all waiters look, and asks for all leases: messages that were sent while
// nobody listened are lost, and the server may have dropped waiters that it could not
// reach.
func (s *store) opened() {
	s.confirmAll()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.waiters {
		w.granted = true
		w.poke()
	}
}

func (w *waiter) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// hear acts on one message.
func (s *store) hear(from session, message string) {
	kind, rest, _ := strings.Cut(message, " ")
	lease, rest, _ := strings.Cut(rest, " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	w, g := s.waiters[lease], s.grants[lease]
	switch kind {
	case "grant":
		if w != nil {
			w.granted, w.handed = true, readHanded(from, rest)
			w.poke()
		} else if f := strings.SplitN(rest, " ", 7); g == nil && s.ctx.Err() == nil && len(f) == 7 {
			s.work.Go(func() { s.decline(lease, f[6]) })
		}
	case "first":
		if us, err := strconv.ParseInt(rest, 10, 64); err == nil && w != nil {
			w.first, w.left = true, time.Duration(us)*time.Microsecond
			w.poke()
		}
	case "wanted":
		s.hearWanted(lease, rest)
	case "lost":
		if w != nil { // the waiter looks, and finds out
			w.handed = nil
		}
		if g != nil {
			g.lose(storekit.HowLost(rest))
		}
	}
}

// decline gives back a name that was handed to a waiter that has left.
func (s *store) decline(lease, name string) {
	ctx, cancel := context.WithTimeout(s.ctx, claimTTL)
	defer cancel()
	g := &grant{s: s, name: name, lease: lease}
	// If the server does not answer, the claim ends by itself.
	_, _ = g.release(ctx)
}
