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
	// maxProofs is how often a renewal sends a keepalive. One that cannot be proven is repeated: the leader has changed.
	maxProofs = 3
	// maxFlights is how many renewals of a lease are under way at a time.
	maxFlights = 4
)

// Renew implements driver.Store. A ttl below the least that a lease can have only asks whether the lease exists.
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
		for l.next != nil || secs > l.backing.seconds { // a write before may have been for less
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
	if err != nil && since <= l.told { // otherwise an earlier flight has ended well
		return 0, err
	}
	l.told = since
	return since, nil
}

// fly begins a flight: a keepalive, and the read that proves it. A flight goes on when its caller has given up, and the
// next call returns its result. So the two round trips may take longer than a call has time. If there are too many
// flights, fly returns nil. l.renewing is held.
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

// land ends a flight that has renewed b, or has failed.
func (l *lease) land(b *backing, err error) error {
	l.renewing.Lock()
	defer l.renewing.Unlock()
	l.flights--
	switch now := l.backing; {
	case err != nil:
	case now.id != b.id || l.next != nil: // the key is bound to another etcd lease, or may be
		return errUnproven
	case b.since > now.since:
		now.since, now.asked, now.term = b.since, b.asked, b.term
	}
	return err
}

// verify renews b by a keepalive and proves it by a read. See backing.
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

// inTime bounds a request of a renewal. An answer that takes longer than a third of the TTL comes too late.
func (s *store) inTime(ctx context.Context, b *backing) (context.Context, context.CancelFunc) {
	return s.within(ctx, b.time()/3)
}
