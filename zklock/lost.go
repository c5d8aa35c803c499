// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// expire is called when the TTL may have passed, and when the node is to be watched.
func (g *grant) expire() {
	s := g.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.leaving || g.loss.Err() != nil {
		return
	}
	if left := g.expires.Sub(driver.Now()); left > 0 {
		g.timer.Reset(left)
		if !g.watched {
			g.watched = true
			s.store.work.Go(g.review)
		}
		return
	}
	g.lose(&driver.LostError{Reason: driver.Expired})
	g.clearing.Do(func() { s.store.work.Go(g.clear) })
}

// clear deletes the node of a lease that was lost, until that is certain.
func (g *grant) clear() {
	for g.s.store.ctx.Err() == nil {
		if _, err := g.remove(g.s.store.ctx); err == nil || g.s.isDead() {
			return
		}
		g.s.sleep(g.s.store.ctx, time.Second)
	}
}

// OnLost implements driver.Notifier.
func (g *grant) OnLost(f func(error)) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.loss.OnLost(f)
}

// lose tells that the lease has ended. session.mu is held.
func (g *grant) lose(why *driver.LostError) {
	if g.loss.Err() != nil || g.leaving {
		return
	}
	delete(g.s.grants, g)
	g.timer.Stop()
	g.loss.Tell(why)
}

// review looks what has happened to the node.
func (g *grant) review() {
	poke(g.told)
	ctx := g.s.store.ctx
	for g.over() == nil && !g.s.isDead() {
		_, err := g.s.watchOwn(ctx, g.n.path(), g)
		if err == nil {
			return
		}
		if errors.Is(err, zk.ErrNoNode) {
			g.missing(ctx)
			return
		}
		if g.s.again(ctx, err) != nil {
			return
		}
	}
}

// missing notes that the node has been deleted, and returns how the lease ended.
func (g *grant) missing(ctx context.Context) error {
	if err := g.over(); err != nil {
		return err
	}
	why := g.howLost(ctx)
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	switch {
	case g.leaving:
		return driver.ErrReleased
	case g.timer != nil:
		g.lose(why)
		return g.loss.Err()
	}
	return g.loss.Note(why) // it was waiting: see begin
}

// howLost returns how the lease ended whose node is not there any more.
func (g *grant) howLost(ctx context.Context) *driver.LostError {
	if by, err := g.n.brokenBy(ctx); err == nil && by != nil {
		return by
	}
	return &driver.LostError{Reason: driver.Gone}
}
