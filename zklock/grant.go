// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// grant implements driver.Grant, Notifier and Reserver. It is made with its
// node, and so can undo an attempt that was never granted.
type grant struct {
	s    *session
	n    *node
	kind kind
	busy chan struct{} // holds one while n is used
	told chan struct{} // has room for one: something has happened to the node

	clearing sync.Once // begins clear

	czxid int64 // the transaction that made the node, once it is known
	young bool  // the node says, or has said, that the lease is not trusted yet

	// Guarded by session.mu.
	token   uint64
	since   driver.Instant
	there   sending        // when a round was sent that has found the node last
	expires driver.Instant // when the node is deleted unless renewed
	timer   *time.Timer    // at expires, and before that when the node is to be watched; nil unless granted
	watched bool           // or is about to be
	link    *link          // over which the watch was set, or before
	stirred bool           // a watch has told that something has happened to the node
	waited  time.Time      // when it was granted, if that is still to be written
	leaving bool           // Release has been called: what happens to the node is no news
	ended   bool           // and has ended
	loss    storekit.Loss
}

// newGrant returns a grant whose node is still to be made.
func (s *session) newGrant(req *driver.Request) *grant {
	return &grant{s: s, n: s.newNode(req), kind: kindOf(req), busy: make(chan struct{}, 1), told: make(chan struct{}, 1)}
}

// watchAfter is how long a lease must be held for its node to be watched, so that the
// holder hears when somebody breaks it. Nothing else depends on it, and for one that is
// given back at once it would cost more than the lease.
const watchAfter = 10 * time.Millisecond

// begin makes the grant one that holds the name: from since, for ttl.
//
// The session lives on for other leases. So a lease that is not renewed is
// ended from here; the end of the session is for when this process is not there.
//
// The error is errGone if the node is known to have gone while the grant was waiting.
func (g *grant) begin(token uint64, since driver.Instant, ttl time.Duration, waited bool) error {
	s := g.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.loss.Err() != nil {
		return errGone
	}
	if waited {
		g.waited = time.Now()
	}
	g.token, g.since, g.expires = token, since, since.Add(ttl)
	left := g.expires.Sub(driver.Now())
	if !g.watched {
		left = min(left, watchAfter)
	}
	g.timer = time.AfterFunc(left, g.expire)
	if s.err != nil {
		g.lose(&driver.LostError{Reason: driver.Expired, Err: errEnded})
		return nil
	}
	s.grants[g] = struct{}{}
	return nil
}

// Token implements driver.Grant.
func (g *grant) Token() uint64 { return g.token }

// Reserved implements driver.Reserver. Waiters are not asked for when the name is free,
// so there may be some.
func (g *grant) Reserved() (tokens uint64, others bool) {
	if g.kind == (kind{}) {
		return reserved, true
	}
	return 0, true
}

// Since implements driver.Grant.
func (g *grant) Since() driver.Instant {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return g.since
}

// remove removes the node, one caller at a time.
func (g *grant) remove(ctx context.Context) (found bool, err error) {
	select {
	case g.busy <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-g.busy }()
	return g.n.remove(ctx)
}

// Renew implements driver.Grant. It returns an error that is
// errors.ErrUnsupported if the session cannot give that TTL.
func (g *grant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	s := g.s
	if err := g.over(); err != nil {
		return 0, err
	}
	if most := s.longestTTL(); ttl > most {
		return 0, fmt.Errorf("zklock: TTL %v: this lease is in a session of %v, and its TTL can be at most %v: acquire it with the longer one: %w",
			ttl, s.granted(), most.Truncate(time.Millisecond), errors.ErrUnsupported)
	}
	_, err := s.confirmedFor(ctx, g.n.path(), g)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return 0, g.missing(ctx)
	case errors.Is(err, zk.ErrSessionExpired):
		s.end(errSession)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	since, err := g.shown(ttl, err)
	switch {
	case g.loss.Err() != nil:
		return 0, g.loss.Err()
	case g.leaving:
		return 0, driver.ErrReleased
	case err != nil && ctx.Err() != nil:
		return 0, ctx.Err()
	case err != nil:
		return 0, unavailable(explain(err))
	}
	g.since = since
	g.expires = max(g.expires, since.Add(ttl)) // a renewal does not shorten; see expire
	if at := g.waited; !at.IsZero() {
		g.waited = time.Time{}
		s.store.work.Go(func() { // for people only: if it fails, so be it
			g.write(s.store.ctx, func(r *record) { r.Acquired, r.Young = at, false })
		})
	}
	return since, nil
}

// shown returns since when the lease may be trusted by what rounds have shown of it, the last of which
// has failed with err if that is not nil. An earlier one may have arrived meanwhile. However
// little the leader has heard of the session lately: more is more. s.mu is held.
func (g *grant) shown(ttl time.Duration, err error) (driver.Instant, error) {
	if g.there.link == nil || g.there.link != g.s.link {
		return g.since, cmp.Or(err, errYoung)
	}
	if since := g.s.trust(g.there, ttl); since > g.since {
		return since, nil
	}
	return g.since, err
}

// over returns why the grant has ended, as far as this participant knows.
func (g *grant) over() error {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	switch {
	case g.leaving:
		return driver.ErrReleased
	case g.loss.Err() != nil:
		return g.loss.Err()
	}
	return nil
}

// Release implements driver.Grant.
func (g *grant) Release(ctx context.Context) error {
	s := g.s
	s.mu.Lock()
	if g.ended {
		s.mu.Unlock()
		return nil
	}
	g.leaving = true
	g.loss.Hush()
	s.mu.Unlock()
	found, err := g.remove(ctx)
	if err != nil && !s.isDead() {
		// The session may live on for longer than the caller asks again.
		g.clearing.Do(func() { s.store.work.Go(g.clear) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return uncertain(err)
	}
	s.mu.Lock()
	g.ended = true
	delete(s.grants, g)
	lost := g.loss.Err()
	granted := g.timer != nil
	if granted {
		g.timer.Stop()
	}
	s.mu.Unlock()
	switch {
	case !granted || lost == nil && found:
		return nil
	case lost == nil:
		return g.howLost(ctx)
	}
	return lost
}

// write changes the data of the node, one caller at a time. What was to be changed
// is in all later data, too.
func (g *grant) write(ctx context.Context, change func(*record)) error {
	select {
	case g.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-g.busy }()
	change(&g.n.record)
	data := g.n.record.encode()
	_, err := call(ctx, g.s, func() (*zk.Stat, error) { return g.s.conn.Set(g.n.path(), data, -1) })
	return err
}
