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

	"github.com/pawl-go/pawl/driver"
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
	listen := fmt.Sprintf(`LISTEN "pawl:%[1]s"; SELECT pg_advisory_lock_shared(hashtextextended('pawl:%[1]s', 0))`, s.id)
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
			g.lose(readNews(rest))
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

// handed is a message that hands a name to a waiter. The waiter has the name for the
// claim, and has to ask for more in that time. If the caller does that by renewing, the
// message is the grant, and saves a round trip.
//
// The time of its arrival says nothing: the process may have been stopped, or the
// message held up, until somebody else had the name. So the claim counts from the
// server's time in the message, which the waiter's last look maps to the local clock.
type handed struct {
	token    uint64
	at       int64 // by the server, in microseconds since 1970
	claim    time.Duration
	timeline int
	spare    uint64 // as in grant
	waits    bool
	from     session
	heard    driver.Instant
}

// look is a request that found the name held. It was sent before the server's time was
// at, while this session listened.
type look struct {
	from session
	sent driver.Instant
	at   int64
}

// readHanded reads what follows the lease in the message, or returns nil.
func readHanded(from session, told string) *handed {
	f := strings.SplitN(told, " ", 7)
	if len(f) != 7 {
		return nil
	}
	var n [6]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(f[i], 10, 64); err != nil {
			return nil
		}
	}
	return &handed{
		token: uint64(n[0]), at: n[1], claim: time.Duration(n[2]) * time.Microsecond, timeline: int(n[3]),
		spare: uint64(n[4]), waits: n[5] != 0, from: from, heard: driver.Now(),
	}
}

// began returns an instant that is certainly not after the server began to count the
// claim, if the last look allows that. A message from before that look is about a claim
// that was over by then. If the computed instant is after the arrival, the server's
// clock was set forward.
func (h *handed) began(last look) (driver.Instant, bool) {
	passed := time.Duration(h.at-last.at) * time.Microsecond
	began := last.sent.Add(passed - driver.Drift(passed))
	return began, passed >= 0 && began <= h.heard
}

// take turns the name that was handed to a waiter into a grant, or returns nil if the
// waiter has to look: if too little is left of the claim, if the message is of another
// run or came over another connection than was open at the last look, or if the caller
// does not renew and so needs the whole TTL. It decides that and ends the waiting in one
// step, so that news of the lease's end finds either the waiter or the grant.
func (a *attempt) take(w *waiter) *grant {
	s, ttl := a.s, a.req.TTL
	s.mu.Lock()
	defer s.mu.Unlock()
	h := w.handed
	w.handed = nil
	if h == nil || !a.req.Renewed || h.from == 0 || h.from != w.seen.from || h.timeline != s.run.timeline {
		return nil
	}
	began, ok := h.began(w.seen)
	// No claim is longer than the TTL: a quarantine lasts as long as the longest TTL.
	claim := min(h.claim, ttl)
	end := began.Add(claim - driver.Drift(claim))
	if !ok || end.Sub(driver.Now()) < claim/2 {
		return nil
	}
	// Of the TTL, only the claim is left.
	g := a.begin(h.token, end.Add(driver.Drift(ttl)-ttl), period{began, h.heard, claim})
	g.spare, g.others = h.spare, h.waits
	return g
}
