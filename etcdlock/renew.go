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
	// maxProofs limits how often a renewal sends a keepalive. The renewal repeats a keepalive that it cannot
	// prove, because the leader has changed.
	maxProofs = 3
	// maxFlights limits how many renewals of a lease are under way.
	maxFlights = 4
)

// Renew implements driver.Store. If ttl is less than MinTTL, Renew only checks that the lease exists.
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
	if secs > l.backing.seconds || l.next != nil {
		defer l.renewing.Unlock()
		rctx, cancel := l.s.inTime(ctx, l.backing)
		defer cancel()
		for l.next != nil || secs > l.backing.seconds { // l.next may have a TTL of less than secs
			if err := l.rewrite(rctx, secs); err != nil {
				return 0, err
			}
		}
		l.told = l.backing.since
		return l.told, nil
	}
	flight := l.fly()
	l.renewing.Unlock()
	err := error(nil)
	select {
	case err = <-flight:
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.renewing.Lock()
	defer l.renewing.Unlock()
	since := l.backing.since
	if err != nil && since <= l.told { // else an earlier flight has renewed the lease
		return 0, err
	}
	l.told = since
	return since, nil
}

// fly begins a flight: a keepalive, and the read that proves it. The two round trips may take longer than a call
// has time, so the flight goes on after its caller has given up, and the next call returns its result. If there
// are maxFlights already, fly returns nil. l.renewing is held.
func (l *lease) fly() <-chan error {
	if l.flights == maxFlights {
		return nil
	}
	done, b := make(chan error, 1), *l.backing
	l.flights++
	if !l.s.background(func() {
		ctx, cancel := l.s.within(l.s.ctx, b.time())
		defer cancel()
		done <- l.land(&b, l.verify(ctx, &b))
	}) {
		l.flights--
		done <- errClosed
	}
	return done
}

// land ends a flight. b is the etcd lease as the flight has renewed it, unless err says that it has failed.
func (l *lease) land(b *backing, err error) error {
	l.renewing.Lock()
	defer l.renewing.Unlock()
	l.flights--
	switch now := l.backing; {
	case err != nil:
	case now.id != b.id || l.next != nil: // the key is or may be bound to another etcd lease
		return errUnproven
	case b.since > now.since:
		now.since, now.asked, now.term = b.since, b.asked, b.term
	}
	return err
}

// verify renews b with a keepalive and proves it with a read; see backing.
func (l *lease) verify(ctx context.Context, b *backing) error {
	for range maxProofs {
		err := b.keepAlive(ctx, l.s)
		known := !unknownLease(err)
		if err != nil && known {
			return err
		}
		p, err := l.proveInTime(ctx, b)
		if err != nil {
			return err
		}
		if known && p.own.Lease == int64(b.id) && b.proven(p.term) {
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

// inTime limits a request of a renewal to a third of the TTL: a later answer is of no use. If the TTL is long, the
// connection may be dead.
func (s *store) inTime(ctx context.Context, b *backing) (context.Context, context.CancelFunc) {
	return s.within(ctx, min(b.time()/3, 2*requestTimeout))
}
