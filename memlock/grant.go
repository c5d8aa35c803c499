// SPDX-License-Identifier: Apache-2.0

package memlock

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// grant is one lease. Store.mu guards what changes. A client may hold a
// hundred thousand, so it has no channel and no timer.
type grant struct {
	owner    *participant
	lock     *lock
	lease    string
	holder   *driver.Holder
	why      string
	shared   bool
	slots    int
	token    uint64
	acquired driver.Instant
	since    driver.Instant // when the TTL began
	ttl      time.Duration

	spare  uint64              // tokens after its own that are its own too
	others bool                // somebody was waiting when it was granted
	keeps  bool                // its client may keep it when nobody uses it
	wanted func(driver.Recall) // from OnWanted
	early  []driver.Recall     // what it is to be called with, if others came before

	lost     *driver.LostError // why it ended, unless by Release
	notify   func(error)       // from OnLost, until called
	released bool
}

var (
	_ driver.Notifier   = (*grant)(nil)
	_ driver.Downgrader = (*grant)(nil)
)

func (g *grant) expires() driver.Instant { return g.since.Add(g.ttl) }

// Token implements driver.Grant.
func (g *grant) Token() uint64 { return g.token }

// Since implements driver.Grant.
func (g *grant) Since() driver.Instant {
	g.owner.store.mu.Lock()
	defer g.owner.store.mu.Unlock()
	return g.since
}

// Renew implements driver.Grant. A lease whose time has passed is lost, even if
// nobody has asked for the name since.
func (g *grant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	s := g.owner.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := driver.Now()
	if err := g.check(now); err != nil {
		return 0, err
	}
	if now.Add(ttl) > g.expires() { // it does not shorten
		g.since, g.ttl = now, ttl
	}
	return now, nil
}

// Release implements driver.Grant. It does not look at ctx: there is nothing to
// wait for. A second call does nothing and returns nil.
func (g *grant) Release(context.Context) error {
	s := g.owner.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.released {
		return nil
	}
	now := driver.Now()
	if err := g.check(now); err != nil {
		return err
	}
	g.release(now)
	return nil
}

// Downgrade implements driver.Downgrader. Waiting readers come in, up to the
// first writer.
func (g *grant) Downgrade(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	s := g.owner.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := g.owner.usable(ctx); err != nil {
		return nil, err
	}
	now := driver.Now()
	if err := g.check(now); err != nil {
		return nil, err
	}
	g.released, g.notify, g.lock.holders = true, nil, nil
	shared := g.lock.grant(g.owner, req, now)
	g.lock.admit(now)
	return shared.shown(), nil
}

// OnLost implements driver.Notifier.
func (g *grant) OnLost(f func(error)) {
	g.owner.store.mu.Lock()
	defer g.owner.store.mu.Unlock()
	switch {
	case g.lost != nil:
		go f(g.lost)
	case !g.released:
		g.notify = f
	}
}

// check returns nil if g still is a holder at now, and why not otherwise.
func (g *grant) check(now driver.Instant) error {
	if g.owner.crashed {
		return fmt.Errorf("memlock: crashed: %w", driver.ErrUnavailable)
	}
	g.owner.store.settle(g.lock, now)
	switch {
	case g.lost != nil:
		return g.lost
	case g.released:
		return driver.ErrReleased
	}
	return nil
}

// release ends g by its own will.
func (g *grant) release(now driver.Instant) {
	g.released, g.notify = true, nil
	g.lock.remove(g, now)
}

// lose marks g as ended without its holder. The caller takes the name from it.
func (g *grant) lose(why *driver.LostError) {
	g.lost = why
	if f := g.notify; f != nil {
		g.notify = nil
		go f(why)
	}
}
