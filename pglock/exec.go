// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// reply is the answer to a call.
type reply struct {
	row  [][]byte // the first row
	rows [][][]byte
	sent driver.Instant // before the sending
}

// call calls a function of the schema.
func (s *store) call(ctx context.Context, function string, args ...string) (reply, error) {
	return s.within(ctx, requestTimeout, function, args...)
}

// within does what call does, and waits at most limit for the answer. It runs ask in a goroutine, so that a caller
// can leave when its context ends. The connection stays open for the answer, because a new one costs more. If the
// call has not been sent when the caller leaves, it is never sent.
func (s *store) within(ctx context.Context, limit time.Duration, function string, args ...string) (reply, error) {
	if err := ctx.Err(); err != nil {
		return reply{}, &driver.Failure{Err: err}
	}
	var answer reply
	var failed error
	var settled atomic.Bool // the call may be sent, or its caller has left: whichever was first
	done := make(chan struct{})
	actx, cancel := context.WithTimeout(s.ctx, s.pool.timeout+limit)
	go func() {
		defer close(done)
		defer cancel()
		answer, failed = s.ask(actx, &settled, limit, function, args)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		time.AfterFunc(s.pool.grace(), cancel)
		return reply{}, &driver.Failure{Err: ctx.Err(), Maybe: settled.Swap(true)}
	}
	if f := driver.FailureOf(failed); failed != nil && s.ctx.Err() != nil && !f.Lasting {
		failed = &driver.Failure{Err: errClosed, Lasting: true, Maybe: f.Maybe}
	}
	return answer, failed
}

// grace returns how long a connection stays open for an answer whose caller has left. The connection may be dead,
// or the link may be slow; then a new connection would take even longer.
func (p *pool) grace() time.Duration {
	return max(500*time.Millisecond, 2*time.Duration(p.took.Load()))
}

// ask sends a call, unless its caller leaves first, and waits for the answer. It sends the call again if it certainly
// had no effect: the other side had closed an idle connection before the call arrived, or the server has rolled the
// call back because of another transaction.
func (s *store) ask(ctx context.Context, settled *atomic.Bool, limit time.Duration, function string, args []string) (reply, error) {
	const most = 10
	for try := 1; ; try++ {
		c, err := s.pool.get(ctx)
		if err != nil {
			if s.ctx.Err() == nil && ctx.Err() != nil {
				err = &driver.Failure{Err: s.explain(ctx.Err()), Silent: true}
			}
			return reply{}, err
		}
		if try == 1 && settled.Swap(true) {
			s.pool.put(c, true)
			return reply{}, nil
		}
		cctx, cancel := context.WithTimeout(ctx, limit) // counts from the sending, as connecting may have taken long
		r, err := c.call(cctx, s.schema, function, args)
		cancel()
		dead := c.IsClosed()
		s.pool.put(c, !dead) // from here on another goroutine may use c
		if err == nil {
			s.pool.took.Store(int64(driver.Now().Sub(r.sent)))
			return r, nil
		}
		f := s.classify(s.ctx, err)
		if f.drop {
			s.pool.drop(driver.Now())
		}
		switch {
		case try == most:
		case dead && notSent(err): // each idle connection may have been closed, also one that was not used yet
			continue
		case f.repeat:
			time.Sleep(rand.N(time.Duration(try) * 5 * time.Millisecond))
			continue
		}
		return reply{}, f
	}
}

// bound calls a function that grants or renews, whose first argument is the timeline. If the server is in a
// different run, bound binds the store to that run and calls the function again.
func (s *store) bound(ctx context.Context, limit time.Duration, function string, args ...string) (reply, error) {
	const most = 3
	for range most {
		r, err := s.within(ctx, limit, function, append([]string{num(int64(s.now().timeline))}, args...)...)
		if err != nil {
			return r, err
		}
		switch integer(r.row[0]) {
		case otherRun:
			if err := s.bind(ctx, r.sent); err != nil {
				return r, err
			}
		case notReplicated:
			return r, s.wrong("the store's mode is synchronous, but the server does not wait for a replica: set synchronous_standby_names, and synchronous_commit to on")
		default:
			return r, nil
		}
	}
	return reply{}, &driver.Failure{Err: fmt.Errorf("%s: the server is in another run each time", s.where)}
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
