// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl/driver"
)

var errReleased = errors.New("etcdlock: released")

// End implements driver.Store. For a waiter, and for a request that may still be carried out, End revokes the etcd
// lease. The cluster then deletes its keys, and refuses keys that arrive later.
func (s *store) End(ctx context.Context, ref driver.Ref, how driver.End) (found bool, err error) {
	l, _ := ref.Handle.(*lease)
	switch {
	case l == nil && (how.Unsure || how.Doubt): // nothing was sent
		return false, nil
	case l == nil:
		return s.endOther(ctx, ref)
	case l.over() != nil && (!how.Doubt || l.isSpared()):
		return false, l.broken(ctx, lostBy(l.over()))
	case how.Unsure || !l.held || l.over() != nil:
		if err := l.revoke(ctx); err != nil {
			return false, s.failure(ctx, err, false)
		}
		found := l.rev != 0 && l.over() == nil
		s.disown(l, errReleased)
		return found, nil
	}
	return l.release(ctx, how.Doubt)
}

func (l *lease) isSpared() bool {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.spared
}

// revoke ends the etcd lease. This deletes all keys that are bound to it, and keeps later requests from binding
// one.
func (l *lease) revoke(ctx context.Context) error {
	rctx, cancel := l.s.request(ctx)
	defer cancel()
	_, err := l.s.client.Revoke(rctx, l.named)
	if unknownLease(err) {
		return nil
	}
	return err
}

// release deletes the key. While l has its etcd lease, no other lease has a key of that name.
func (l *lease) release(ctx context.Context, doubt bool) (found bool, err error) {
	s := l.s
	s.mu.Lock()
	again := l.asked
	s.mu.Unlock()
	rctx, cancel := s.request(ctx)
	defer cancel()
	resp, err := s.client.Delete(rctx, l.key)
	if err == nil && doubt {
		err = l.revoke(ctx)
	}
	if err != nil {
		s.mu.Lock()
		l.asked = true
		s.mu.Unlock()
		return false, s.failure(ctx, err, true)
	}
	found = resp.Deleted > 0
	var lost *driver.LostError
	if !found && !again {
		_, err := l.prove(rctx)
		lost = lostBy(err)
	}
	s.disown(l, errReleased)
	// The cluster may carry out a deletion without an answer late. Then it would delete the key of the next lease
	// with the same etcd lease.
	if found && !again && !doubt {
		l.reuse()
	}
	return found, l.broken(ctx, lost)
}

// broken returns lost if the lease was broken, and deletes the record of the break. If the lease is only gone, it
// returns nil.
func (l *lease) broken(ctx context.Context, lost *driver.LostError) error {
	if lost == nil || lost.Reason != driver.Broken {
		return nil
	}
	rctx, cancel := l.s.request(ctx)
	defer cancel()
	_, _ = l.s.client.Delete(rctx, l.s.brokenKey(l.id)) // on an error the record ends with the etcd lease
	return lost
}

// reuse keeps the etcd lease for another lease, unless a request may be under way that binds a key to it.
func (l *lease) reuse() {
	if !l.renewing.TryLock() {
		return
	}
	defer l.renewing.Unlock()
	if l.next == nil && l.flights == 0 && l.backing.id == l.named {
		l.s.spare(l)
	}
}
