// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"cmp"
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
	"github.com/pawl-go/pawl/driver/storekit"
)

// errPooled says that there is a pooler in between, which passes no messages on.
var errPooled = errors.New("a pooler passes no messages on")

// session is the number of a listener's connection. 0 means none.
type session int

// listener is the connection over which a client receives messages. The first waiter or lease opens it, and it
// stays open. It has an advisory lock, by which the server knows that the client hears messages.
type listener struct {
	config *pgconn.Config // nil means the pool's
	ready  chan struct{}  // closed after the first attempt

	mu      sync.Mutex
	started bool
	opened  session
	is      session // the present session; 0 while there is none
	err     error   // the error of the last attempt
	cut     context.CancelFunc
}

// state returns the session, or 0 and the error of the last attempt. If that is errPooled, there will never be a
// session.
func (l *listener) state() (session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.is, l.err
}

// start starts the listener, unless it has started.
func (l *listener) start(s *store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started && s.ctx.Err() == nil {
		l.started = true
		s.work.Go(s.listen)
	}
}

// set records the outcome of an attempt to connect.
func (l *listener) set(is session, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.is, l.err = is, err
	select {
	case <-l.ready:
	default:
		close(l.ready)
	}
}

// reconnect closes the connection, which leads to the previous server. listen then makes another.
func (l *listener) reconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.is = 0
	if l.cut != nil {
		l.cut()
	}
}

// next begins a session. reconnect cancels the context that next returns.
func (l *listener) next(ctx context.Context) (session, context.Context, context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, l.cut = context.WithCancel(ctx)
	l.opened++
	return l.opened, ctx, l.cut
}

// Listen implements driver.Store.
func (s *store) Listen(f func(driver.Event)) { s.events.To(f) }

// Hear implements driver.Store. One connection receives the messages about all names.
func (s *store) Hear(string) (ready <-chan struct{}, stop func()) {
	s.listener.start(s)
	return s.listener.ready, func() {}
}

// listen connects again after each failure, until the store is closed.
func (s *store) listen() {
	const minPause, maxPause = 10 * time.Millisecond, time.Second
	for pause := minPause; s.ctx.Err() == nil; {
		heard, err := s.listenOnce()
		if heard {
			pause = minPause
		}
		s.listener.set(0, err)
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

// pulse is how often the listener checks that its connection is alive.
const pulse = 5 * time.Second

// listenOnce listens on one connection, until it fails.
func (s *store) listenOnce() (heard bool, err error) {
	is, ctx, cancel := s.listener.next(s.ctx)
	defer cancel()
	config := cmp.Or(s.listener.config, s.pool.config)
	c, err := s.pool.dial(ctx, config, func(_ *pgconn.PgConn, n *pgconn.Notification) { s.hear(is, n.Payload) })
	if err != nil {
		return false, dialFailure(err)
	}
	defer c.end()
	if c.pooled {
		return false, errPooled
	}
	// If the server has not noticed that the previous connection is gone, that connection still has the lock. The
	// lock is shared, so the client can take it again.
	rctx, done := context.WithTimeout(ctx, requestTimeout)
	defer done()
	listen := fmt.Sprintf(`LISTEN "pawl:%[1]s"; SELECT pg_catalog.pg_advisory_lock_shared(pg_catalog.hashtextextended('pawl:%[1]s', 0))`, s.id)
	if err := c.Exec(rctx, listen).Close(); err != nil {
		return false, s.classify(ctx, err)
	}
	s.listener.set(is, nil)
	// Messages were lost while there was no listener, and the server may have dropped waiters.
	s.events.Put(driver.Event{Kind: driver.Missed})
	for {
		if err := c.beat(ctx); err != nil {
			return true, s.classify(ctx, err)
		}
	}
}

// beat waits for a message. If none comes, it checks that the connection is alive.
func (c *conn) beat(ctx context.Context) error {
	wctx, cancel := context.WithTimeout(ctx, pulse)
	defer cancel()
	err := c.WaitForNotification(wctx)
	if err == nil || wctx.Err() == nil || ctx.Err() != nil {
		return err
	}
	pctx, done := context.WithTimeout(ctx, requestTimeout)
	defer done()
	return c.Exec(pctx, "").Close()
}

// hear turns a message into an event.
func (s *store) hear(from session, message string) {
	kind, rest, _ := strings.Cut(message, " ")
	lease, rest, _ := strings.Cut(rest, " ")
	e := driver.Event{Lease: lease}
	switch kind {
	case "grant":
		if !s.handed(&e, from, rest) {
			return
		}
	case "first":
		e.Kind, e.Grant.Free = driver.Look, micros([]byte(rest))
	case "wanted":
		e.Kind, e.Waits = driver.Wanted, rest != "0"
	case "lost":
		e.Kind, e.Loss = driver.Lost, storekit.HowLost(rest)
	default:
		return
	}
	s.events.Put(e)
}

// handed reads the rest of a message that grants a name. If the message is from another run, the event has no
// session; then it is only a reason to look.
func (s *store) handed(e *driver.Event, from session, told string) bool {
	f := strings.SplitN(told, " ", 7)
	if len(f) != 7 {
		return false
	}
	var n [6]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(f[i], 10, 64); err != nil {
			return false
		}
	}
	e.Kind, e.Name, e.For, e.Heard = driver.Granted, f[6], time.Duration(n[2])*time.Microsecond, driver.Now()
	e.Grant = driver.Answer{Token: uint64(n[0]), Spare: uint64(n[4]), Waited: n[5] != 0}
	e.Grant.Server, e.Grant.At = s.where, time.Duration(n[1])*time.Microsecond
	if timeline := int(n[3]); timeline == s.now().timeline {
		e.Grant.Session = listening{from, timeline}
	}
	return true
}
