// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// begin records that the lease holds the name from the instant since on. It returns false if the lease has ended
// already. session.mu is held.
//
// The session goes on for other leases, so the client deletes the node when the TTL has passed. If the client has
// died, the servers delete it at the end of the session.
func (n *node) begin(since driver.Instant) bool {
	if n.lost != nil || n.leaving {
		return false
	}
	if n.young = 0; n.line != nil && n.expires == 0 {
		n.waited = time.Now()
	}
	n.waitNoMore()
	n.expires = max(n.expires, since.Add(n.s.ttl))
	left := n.expires.Sub(driver.Now())
	if n.timer == nil {
		n.timer = time.AfterFunc(left, n.expire)
	} else {
		n.timer.Reset(left)
	}
	return true
}

// expire runs when the timer fires. It ends the lease if the TTL has passed, and else sets the timer again.
func (n *node) expire() {
	s := n.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.leaving || n.lost != nil {
		return
	}
	if left := n.expires.Sub(driver.Now()); left > 0 {
		n.timer.Reset(left)
		return
	}
	n.lose(&driver.LostError{Reason: driver.Expired})
	s.store.work.Go(n.clear)
}

// lose records that somebody else has ended the lease or its place in the queue, and tells the client. session.mu
// is held.
func (n *node) lose(why *driver.LostError) {
	if n.lost != nil || n.leaving {
		return
	}
	n.lost = why
	n.waitNoMore()
	if n.timer != nil {
		n.timer.Stop()
	}
	n.tell(driver.Event{Kind: driver.Lost, Loss: why})
}

// tell sends an event about the lease to the client.
func (n *node) tell(e driver.Event) {
	e.Name, e.Lease = n.ref.Name, n.ref.Lease
	n.s.store.tell(e)
}

// clear deletes the node of a lease that has expired. The session may go on for a long time and would keep the
// node, so clear repeats the request until the node is gone.
func (n *node) clear() {
	ctx := n.s.store.ctx
	for ctx.Err() == nil && n.use(ctx) == nil {
		_, err := n.remove(ctx)
		n.free()
		if err == nil || n.s.isDead() {
			n.s.drop(n)
			return
		}
		n.s.sleep(ctx, time.Second)
	}
}

// missing records that somebody has deleted the node. It returns an error that says who did it, if that is known.
//
// The client hears of a loss once, so missing asks first. Until the answer comes the client trusts the lease for no
// longer than before, because a node without a watch is not renewed. If no answer comes, brokenBy fails when the
// connection is closed; see link.limit.
func (n *node) missing(ctx context.Context) *driver.LostError {
	why, err := n.brokenBy(ctx)
	if err != nil || why == nil {
		why = &driver.LostError{Reason: driver.Gone}
	}
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.lose(why)
	return why
}

// Renew implements driver.Store. One transaction that a quorum carries out for the session renews all of its
// leases whose nodes are watched over the same connection: the server would have reported the deletion of a node
// before it answered the transaction. If ctx ends before the answer comes, the next call for the lease uses the
// answer.
func (s *store) Renew(ctx context.Context, ref driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	n, _ := ref.Handle.(*node)
	if n == nil {
		return driver.Renewal{}, &driver.LostError{Reason: driver.Gone}
	}
	at := n.s
	if most := at.longestTTL(); ttl > most {
		return driver.Renewal{}, failure(ctx, fmt.Errorf("zklock: TTL %v: this lease is in a session of %v, and its TTL can be at most %v: acquire it with the longer one: %w",
			ttl, at.granted(), most.Truncate(time.Millisecond), errors.ErrUnsupported), false)
	}
	since, err := n.confirmed(ctx, ttl)
	why := get(at, &n.lost)
	switch {
	case err == nil:
		n.renewed(since.Add(ttl))
		return driver.Renewal{Since: since}, nil
	case why != nil:
		return driver.Renewal{}, why
	case at.isDead():
		return driver.Renewal{}, &driver.LostError{Reason: driver.Expired, Err: errEnded}
	case errors.Is(err, errGone):
		return driver.Renewal{}, n.missing(ctx)
	}
	return driver.Renewal{}, failure(ctx, err, false)
}

// confirmed returns the instant from which the lease is trusted, by a transaction that was sent after n.asked.
// n.asked is the beginning of the first call that has no confirmation yet.
func (n *node) confirmed(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	s := n.s
	for {
		s.mu.Lock()
		if n.asked == 0 {
			n.asked = driver.Now()
		}
		if s.news == nil {
			s.news = make(chan struct{})
		}
		news, watching, w := s.news, n.watching(), s.watches[n.path()]
		asked := watching || w != nil && w.own == n && w.link == s.link // the watch is being set; setting it again would take longer
		switch {
		case n.lost != nil, n.leaving:
			s.mu.Unlock()
			return 0, errGone
		case watching && s.last >= n.asked:
			n.asked = 0
			since := s.trust(s.last, ttl)
			s.mu.Unlock()
			return since, nil
		}
		s.touchSoon(maxRenewing) // runs at the same time as n.own below
		s.mu.Unlock()
		if !asked {
			if err := n.own(ctx); err != nil {
				return 0, err
			}
			continue
		}
		select {
		case <-news:
		case <-s.dead:
			return 0, s.why()
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// maxRenewing limits how many transactions that renew leases are under way. Further renewals wait for the next
// one. The limit is more than one, because on a slow link a renewal must not wait for the answer to another.
const maxRenewing = 4

// renewed records that the lease lasts until the given instant, unless it lasts longer already.
func (n *node) renewed(until driver.Instant) {
	s := n.s
	s.mu.Lock()
	defer s.mu.Unlock()
	n.expires = max(n.expires, until)
	if at := n.waited; !at.IsZero() {
		n.waited = time.Time{}
		s.store.work.Go(func() { n.noteAcquired(s.store.ctx, at) })
	}
}

// noteAcquired writes the time of the grant into the node. Only people read it, so noteAcquired ignores errors.
func (n *node) noteAcquired(ctx context.Context, at time.Time) {
	_, _ = call(ctx, n.s, func() (*zk.Stat, error) {
		data, stat, err := n.s.conn.Get(n.path())
		if err != nil {
			return nil, err
		}
		return n.s.conn.Set(n.path(), acquired(data, at), stat.Version)
	})
}

// End implements driver.Store.
func (s *store) End(ctx context.Context, ref driver.Ref, _ driver.End) (found bool, err error) {
	n, _ := ref.Handle.(*node)
	if n == nil || n.s.isDead() {
		return false, nil // the node has gone with its session
	}
	n.s.mu.Lock()
	was := n.expires != 0 && n.lost == nil && !n.leaving // the lease was granted, and the client does not know that it has ended
	n.leaving = true
	n.s.mu.Unlock()
	err = n.use(ctx)
	if err == nil {
		found, err = n.remove(ctx)
		n.free()
	}
	switch {
	case err == nil:
		n.s.drop(n)
	case n.s.isDead():
		return false, nil
	default:
		return false, failure(ctx, err, true)
	}
	if was && !found {
		if why, err := n.brokenBy(ctx); err == nil && why != nil {
			return false, why
		}
	}
	return found, nil
}
