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

// listener is the connection over which a client receives messages. The first waiter or lease opens it, and it
// stays open. It has an advisory lock, by which the server knows that the client hears messages.
type listener struct {
	config *pgconn.Config // nil means the pool's
	begin  sync.Once      // starts listen, or makes sure that it never starts
	tried  sync.Once      // closes ready
	ready  chan struct{}  // closed after the first attempt

	mu  sync.Mutex
	is  *pgconn.PgConn // the present session; nil while there is none
	err error          // the error of the last attempt
	cut context.CancelFunc
}

// state returns the session, or nil and the error of the last attempt. If that is errPooled, there will never be a
// session.
func (l *listener) state() (*pgconn.PgConn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.is, l.err
}

// set records the outcome of an attempt to connect.
func (l *listener) set(is *pgconn.PgConn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.is, l.err = is, err
	l.tried.Do(func() { close(l.ready) })
}

// reconnect closes the connection, which leads to the previous server. listen then makes another.
func (l *listener) reconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.is = nil
	if l.cut != nil {
		l.cut()
	}
}

// cuttable returns a context that reconnect cancels.
func (l *listener) cuttable(ctx context.Context) (context.Context, context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, l.cut = context.WithCancel(ctx)
	return ctx, l.cut
}

// Listen implements driver.Store.
func (s *store) Listen(f func(driver.Event)) { s.events.To(f) }

// Hear implements driver.Store. One connection receives the messages about all names.
func (s *store) Hear(string) (ready <-chan struct{}, stop func()) {
	s.beginToListen()
	return s.listener.ready, func() {}
}

// beginToListen does nothing if listen has begun, or the store is closed.
func (s *store) beginToListen() { s.listener.begin.Do(func() { s.work.Go(s.listen) }) }

// listen connects again after each failure, until the store is closed.
func (s *store) listen() {
	const minPause, maxPause = 10 * time.Millisecond, time.Second
	for pause := minPause; s.ctx.Err() == nil; {
		heard, err := s.listenOnce()
		if heard {
			pause = minPause
		}
		s.listener.set(nil, err)
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
	ctx, cancel := s.listener.cuttable(s.ctx)
	defer cancel()
	c, err := s.pool.dial(ctx, cmp.Or(s.listener.config, s.pool.config), s.hear)
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
	s.listener.set(c.PgConn, nil)
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
func (s *store) hear(from *pgconn.PgConn, message *pgconn.Notification) {
	kind, rest, _ := strings.Cut(message.Payload, " ")
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
func (s *store) handed(e *driver.Event, from *pgconn.PgConn, told string) bool {
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
