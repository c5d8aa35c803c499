// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// renewing is a request for a renewal.
type renewing struct {
	driver.Ref
	ttl time.Duration
}

// leastFlight is the shortest TTL for which a renewal goes on without its caller.
const leastFlight = time.Second

// answerTime returns how long a renewal for ttl waits for its answer after it was sent. A later answer is of no
// use, or the connection is dead and others wait for it.
func (s *store) answerTime(ttl time.Duration) time.Duration {
	if ttl < leastFlight {
		return requestTimeout
	}
	return max(min(ttl/3, 2*requestTimeout), s.pool.grace())
}

// renewal is the answer to a renewal for ttl.
type renewal struct {
	driver.Renewal
	ttl time.Duration
	err error
}

// Renew implements driver.Store. A renewal may first have to wait for a connection that other requests use, and
// then for its answer. So the renewal goes on when its caller has given up. If its answer comes during a later call
// that gets no answer of its own, that call returns it.
func (s *store) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	h, _ := l.Handle.(*handle)
	if h == nil || ttl < leastFlight {
		return s.renewOnce(ctx, renewing{l, ttl})
	}
	began, own := driver.Now(), make(chan *renewal, 1)
	go func() {
		fctx, cancel := context.WithTimeout(context.Background(), ttl)
		defer cancel()
		r := &renewal{ttl: ttl}
		r.Renewal, r.err = s.renewOnce(fctx, renewing{l, ttl})
		r.Heard = driver.Now()
		switch {
		case r.err == nil, errors.Is(r.err, driver.ErrLost):
			h.last.Store(r)
		case errors.Is(r.err, context.DeadlineExceeded): // fctx has ended, which is not the caller's context
			r.err = &driver.Failure{Err: s.explain(r.err), Maybe: true, Silent: true}
		}
		own <- r
	}()
	select {
	case r := <-own:
		return r.Renewal, r.err
	case <-ctx.Done():
	}
	// An answer from before this call renews nothing now. A loss stays one.
	if r := h.last.Load(); r != nil && (r.err != nil || r.ttl == ttl && r.Heard >= began) {
		return r.Renewal, r.err
	}
	return driver.Renewal{}, &driver.Failure{Err: ctx.Err(), Maybe: true}
}

func (s *store) renewOnce(ctx context.Context, q renewing) (r driver.Renewal, err error) {
	send := s.renew
	if q.ttl >= gatherTTL {
		send = s.renewals.Do
	}
	a, err := send(ctx, q)
	if err != nil {
		return r, err
	}
	r = driver.Renewal{Since: a.sent, Clock: s.clock(a.sent, a.row[1])}
	switch integer(a.row[0]) {
	case 1:
		return r, nil
	case keptLonger:
		r.Kept = true
		return r, nil
	case tooLong:
		return r, &driver.Failure{Err: s.limit.tooLong(q.ttl, micros(a.row[3])), Lasting: true}
	}
	return r, storekit.HowLost(string(a.row[2]))
}

func (s *store) renew(ctx context.Context, q renewing) (reply, error) {
	return s.bound(ctx, s.answerTime(q.ttl), "renew", q.Name, q.Lease, num(int64(kindOf(q.Shared, q.Slots))), num(q.ttl.Microseconds()))
}
