// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// reply is the row that a function returned, and the instant before the request was sent.
type reply struct {
	row  [][]byte
	sent driver.Instant
}

// exec calls a function of the schema, and waits at most limit for the answer. If the server has rolled the call back
// because of another transaction, exec repeats it. sent is an instant before the sending.
func (s *store) exec(ctx context.Context, limit time.Duration, function string, args ...string) (rows [][][]byte, sent driver.Instant, err error) {
	const most = 10
	sql := s.statement(function, len(args))
	for i := range most {
		rows, sent, err = s.once(ctx, limit, sql, args)
		var f *failure
		if !errors.As(err, &f) || !f.repeat {
			break
		}
		select {
		case <-time.After(rand.N(time.Duration(i+1) * 5 * time.Millisecond)):
		case <-ctx.Done():
		}
	}
	return rows, sent, err
}

// once runs ask in a goroutine, so that a caller can leave when its context ends. The connection stays open for
// the answer, because a new one costs more. If the statement has not been sent when the caller leaves, it is never
// sent.
func (s *store) once(ctx context.Context, limit time.Duration, sql string, args []string) (rows [][][]byte, sent driver.Instant, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, &driver.Failure{Err: err}
	}
	qctx, cancel := context.WithTimeout(s.ctx, s.pool.timeout+limit)
	q := &question{sql: sql, args: args, limit: limit, done: make(chan struct{})}
	go func() {
		defer close(q.done)
		defer cancel()
		q.err = s.ended(s.ask(qctx, q))
	}()
	select {
	case <-q.done:
		return q.rows, q.sent, q.err
	case <-ctx.Done():
		time.AfterFunc(s.pool.grace(), cancel)
		return nil, 0, &driver.Failure{Err: ctx.Err(), Maybe: q.settled.Swap(true)}
	}
}

// grace returns how long a connection stays open for an answer whose caller has left. The connection may be dead,
// or the link may be slow; then a new connection would take even longer.
func (p *pool) grace() time.Duration {
	return max(500*time.Millisecond, 2*time.Duration(p.took.Load()))
}

// question is a statement and its answer.
type question struct {
	sql     string
	args    []string
	limit   time.Duration
	settled atomic.Bool // the statement may be sent, or its caller has left: whichever was first
	done    chan struct{}

	// Set before done is closed.
	rows [][][]byte
	sent driver.Instant
	err  error
}

// ask sends a question, unless its caller leaves first, and waits for the answer. If the other side had closed an
// idle connection before the question arrived, ask sends the question again.
func (s *store) ask(ctx context.Context, q *question) error {
	for sent := 0; ; sent++ {
		c, err := s.pool.get(ctx)
		if err != nil {
			if s.ctx.Err() == nil && ctx.Err() != nil {
				err = &driver.Failure{Err: s.explain(ctx.Err()), Silent: true}
			}
			return err
		}
		if sent == 0 && q.settled.Swap(true) {
			s.pool.put(c, true)
			return nil
		}
		ectx, cancel := context.WithTimeout(ctx, q.limit) // counts from the sending, as connecting may have taken long
		q.rows, q.sent, err = c.exec(ectx, q.sql, q.args)
		cancel()
		if err == nil {
			s.pool.took.Store(int64(driver.Now().Sub(q.sent)))
		}
		// Each idle connection may have been closed, also one that was not used yet.
		again := err != nil && sent < cap(s.pool.slots) && c.IsClosed() && notSent(err)
		s.pool.put(c, !c.IsClosed()) // from here on another goroutine may use c
		if err == nil {
			return nil
		}
		if again {
			continue
		}
		f := s.classify(s.ctx, err)
		if f.drop {
			s.pool.drop(driver.Now())
		}
		return f
	}
}

// ended returns errClosed in place of err if the store was closed in the meantime.
func (s *store) ended(err error) error {
	if f := driver.FailureOf(err); err != nil && s.ctx.Err() != nil && !f.Lasting {
		return &driver.Failure{Err: errClosed, Lasting: true, Maybe: f.Maybe}
	}
	return err
}

// call runs exec for a function that returns one row.
func (s *store) call(ctx context.Context, function string, args ...string) (reply, error) {
	rows, sent, err := s.exec(ctx, requestTimeout, function, args...)
	return s.one(rows, sent, err)
}

// bound calls a function that grants or renews and returns one row. The first argument of the function is the
// timeline. If the server is in a different run, bound binds the store to that run and calls the function again.
func (s *store) bound(ctx context.Context, function string, args ...string) (reply, error) {
	rows, sent, err := s.boundRows(ctx, requestTimeout, function, args...)
	return s.one(rows, sent, err)
}

// one returns the only row of an answer.
func (s *store) one(rows [][][]byte, sent driver.Instant, err error) (reply, error) {
	switch {
	case err != nil:
		return reply{}, err
	case len(rows) != 1:
		return reply{}, &driver.Failure{Err: fmt.Errorf("%s: the answer has %d rows", s.where, len(rows)), Maybe: true, Lasting: true}
	}
	return reply{rows[0], sent}, nil
}

// boundRows does what bound does, for a function that returns one row or more.
func (s *store) boundRows(ctx context.Context, limit time.Duration, function string, args ...string) (rows [][][]byte, sent driver.Instant, err error) {
	const most = 3
	all := append([]string{""}, args...)
	for range most {
		all[0] = num(int64(s.now().timeline))
		rows, sent, err = s.exec(ctx, limit, function, all...)
		if err != nil || len(rows) == 0 {
			return rows, sent, err
		}
		switch integer(rows[0][0]) {
		case otherRun:
			if err := s.bind(ctx, sent); err != nil {
				return nil, 0, err
			}
			continue
		case notReplicated:
			return nil, 0, s.wrong("the store's mode is synchronous, but the server does not wait for a replica: set synchronous_standby_names, and synchronous_commit to on")
		}
		return rows, sent, nil
	}
	return nil, 0, &driver.Failure{Err: fmt.Errorf("%s: the server is in another run each time", s.where)}
}

func num(n int64) string { return strconv.FormatInt(n, 10) }

func boolean(b bool) string { return strconv.FormatBool(b) }

func long(b []byte) int64 {
	n, _ := strconv.ParseInt(string(b), 10, 64) // NULL is 0
	return n
}

func yes(b []byte) bool { return string(b) == "t" }

func integer(b []byte) int { return int(long(b)) }

func micros(b []byte) time.Duration { return time.Duration(long(b)) * time.Microsecond }
