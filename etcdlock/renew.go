// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	// maxProofs is how often a keepalive is repeated that could not be proven: the
	// leader has changed in between.
	maxProofs = 3
	// maxFlights is how many renewals of a lease are under way at a time.
	maxFlights = 4
)

// flight is a renewal that is under way: a keepalive, and the read that proves it. It goes on
// when its caller has given up, and a later call returns what it has shown. So two round trips
// may take longer than a call has time.
type flight struct {
	done  chan struct{}
	since driver.Instant // set before done is closed, as is err
	err   error
}

// Renew implements driver.Store. A ttl that no lease can have asks only whether the lease is there.
func (s *store) Renew(ctx context.Context, ref driver.Ref, ttl time.Duration) (r driver.Renewal, err error) {
	l, _ := ref.Handle.(*lease)
	switch {
	case l == nil:
		r.Since, err = s.renewOther(ctx, ref, ttl)
	case l.over() != nil:
		return r, cmp.Or(lostBy(l.over()), &driver.LostError{Reason: driver.Gone})
	case ttl < driver.MinTTL:
		_, err = l.prove(ctx)
	default:
		if r.Since, err = l.renew(ctx, seconds(ttl)); err == nil {
			l.renewing.Lock()
			r.Kept = seconds(ttl) < l.backing.seconds
			if !l.shown {
				l.shown = l.s.background(l.show)
			}
			l.renewing.Unlock()
		}
	}
	switch {
	case err == nil, lostBy(err) != nil, errors.Is(err, errors.ErrUnsupported):
		return r, err
	case l != nil && lostBy(l.over()) != nil:
		return r, l.over()
	}
	return r, s.failure(ctx, err, false)
}

func (l *lease) renew(ctx context.Context, secs int64) (driver.Instant, error) {
	l.renewing.Lock()
	if secs > l.backing.seconds || l.dirty {
		defer l.renewing.Unlock()
		l.writes++ // what is under way does not count any more: the key may be bound to another etcd lease
		rctx, cancel := l.s.inTime(ctx, l.backing)
		defer cancel()
		since, err := l.rewrite(rctx, secs)
		if err == nil {
			l.told = since
		}
		return since, err
	}
	f := l.fly()
	l.renewing.Unlock()
	err := error(nil)
	select {
	case <-f.done:
		err = f.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.renewing.Lock()
	defer l.renewing.Unlock()
	if err == nil {
		l.told = max(l.told, f.since)
		return f.since, nil
	}
	if since := l.backing.since; since > l.told { // an earlier flight has arrived
		l.told = since
		return since, nil
	}
	return 0, err
}

// fly begins a flight. If there are too many it returns one that does not end. l.renewing is held.
func (l *lease) fly() *flight {
	f := &flight{done: make(chan struct{})}
	if l.flights == maxFlights {
		return f
	}
	b, writes, beside := *l.backing, l.writes, l.flights
	l.flights++
	if !l.s.background(func() {
		ctx, cancel := l.s.within(l.s.ctx, b.time())
		defer cancel()
		err := l.verify(ctx, &b, beside)
		l.renewing.Lock()
		defer l.renewing.Unlock()
		l.flights--
		switch {
		case err == nil && l.writes != writes:
			err = errUnproven
		case err == nil && b.since > l.backing.since:
			l.backing.since, l.backing.asked, l.backing.term = b.since, b.asked, b.term
		}
		f.since, f.err = b.since, err
		close(f.done)
	}) {
		l.flights--
		f.err = errClosed
		close(f.done)
	}
	return f
}

// verify renews b by a keepalive and proves it by a read. See backing. Beside is how many other
// renewals of the lease are under way.
func (l *lease) verify(ctx context.Context, b *backing, beside int) error {
	for range maxProofs {
		err := b.keepAlive(ctx, l.s, beside)
		known := !unknownLease(err)
		if err != nil && known {
			return err
		}
		p, err := l.proveInTime(ctx, b)
		if err != nil {
			return err
		}
		if known && p.own[0].Lease == int64(b.id) && b.proven(p.term) {
			return nil
		}
	}
	return errUnproven
}

func (l *lease) proveInTime(ctx context.Context, b *backing) (*proof, error) {
	ctx, cancel := l.s.inTime(ctx, b)
	defer cancel()
	return l.prove(ctx)
}

// inTime bounds a request of a renewal. An answer that takes longer than a third of the TTL
// comes too late to keep a lease.
func (s *store) inTime(ctx context.Context, b *backing) (context.Context, context.CancelFunc) {
	return s.within(ctx, b.time()/3)
}
