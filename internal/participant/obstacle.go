// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// lookWithin bounds how long a call that gives up asks who has the name. The caller should not notice the delay.
const lookWithin = 50 * time.Millisecond

// patience is the context of one wait at the store. When the caller's context ends, its error should say who has the
// name and which place the caller had, or that the store is in quarantine. So the participant looks while the place in
// the queue still exists, and then ends the wait.
type patience struct {
	context.Context
	why  atomic.Pointer[error] // what the call waited for, as last seen
	stop func()
}

// patient begins a wait, whose context ends a little after ctx. The caller must call stop.
func (a *attempt) patient(ctx context.Context) *patience {
	w := &patience{Context: Lent(ctx, a.p.ctx), stop: func() {}}
	if ctx.Done() == nil {
		return w
	}
	inner, cancel := context.WithCancel(w.Context)
	w.Context = inner
	unwatch := context.AfterFunc(ctx, func() {
		if why := a.p.Obstacle(inner, a.ref.Name, a.req.Holder); why != nil {
			w.why.Store(&why)
		}
		cancel()
	})
	w.stop = func() { unwatch(); cancel() }
	return w
}

// gaveUp adds to err, the error of a call whose context has ended, what the call waited for: what patience saw or,
// from a store without a queue, the last answer.
func (l *wait) gaveUp(err error) error {
	var why *error
	if l.patience != nil {
		why = l.patience.why.Load()
	}
	switch {
	case l.refusal.err != nil:
		return fmt.Errorf("%w: %w", err, &RefusedError{Last: l.refusal.err})
	case why != nil:
		return fmt.Errorf("%w: %w", err, *why)
	case len(l.holders) > 0:
		return fmt.Errorf("%w: %w", err, &driver.HeldError{Info: infoOf(l.ref.Name, l.holders)})
	}
	return err
}

// obstacle is one look at the store that several calls share.
type obstacle struct {
	done chan struct{}
	why  error // set before done is closed; nil if the store shows no reason to wait
}

// Obstacle asks the store what a call for name waits for. It returns a *driver.HeldError, a *driver.ClosedError, or nil if
// the store shows no reason to wait or does not answer within lookWithin. It does not ask once ctx has ended, because
// the caller may have returned, nor once the participant is stopped, because Close does not wait for it.
func (p *Participant) Obstacle(ctx context.Context, name string, me *driver.Holder) error {
	p.mu.Lock()
	if ctx.Err() != nil || p.ctx.Err() != nil || !p.caps.Shows {
		p.mu.Unlock()
		return nil
	}
	s := p.obstacles[name]
	if s == nil {
		s = &obstacle{done: make(chan struct{})}
		p.obstacles[name] = s
		p.work.Go(func() {
			ctx, cancel := context.WithTimeout(p.ctx, lookWithin)
			defer cancel()
			s.why = p.askObstacle(ctx, name, me)
			p.mu.Lock()
			delete(p.obstacles, name)
			p.mu.Unlock()
			close(s.done)
		})
	}
	p.mu.Unlock()
	select {
	case <-s.done:
		return s.why
	case <-time.After(lookWithin):
	case <-ctx.Done():
	}
	return nil
}

// askObstacle asks the store who has name, and which place this client has in the queue. If nobody has the name, it asks
// whether the store is in quarantine.
func (p *Participant) askObstacle(ctx context.Context, name string, me *driver.Holder) error {
	info, err := p.store.Inspect(ctx, name)
	if err != nil {
		return nil
	}
	if len(info.Holders) > 0 {
		held := &driver.HeldError{Info: info}
		if p.caps.FIFO && me != nil { // without FIFO a place means nothing
			held.Place = place(info, *me)
		}
		return held
	}
	if is, err := p.store.Describe(ctx); err == nil && is.Closed > 0 {
		return &driver.ClosedError{Left: is.Closed, MaxTTL: is.MaxTTL, SetBy: is.SetBy, Do: is.Do}
	}
	return nil
}

// place returns the place in the store's queue of this client's first waiter, or 0.
func place(info *driver.Info, me driver.Holder) int {
	for i, w := range info.Waiters {
		if w.Trace = me.Trace; w.Holder == me {
			return i + 1
		}
	}
	return 0
}
