// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// OnLost makes the participant call f in a goroutine, once, when it learns that the store has ended the lease. If
// it knows that already, it calls f at once.
func (l *Lease) OnLost(f func(error)) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.lost != nil {
		go f(l.lost)
		return
	}
	l.onLost = f
}

// lose notes that the store has ended the lease. The caller holds mu.
func (l *Lease) lose(why *driver.LostError) {
	if l.lost != nil || l.state == ended {
		return
	}
	l.forget()
	if l.onLost != nil {
		go l.onLost(why)
	}
	l.note(why)
}

// note notes a loss that the holder knows of, and returns the first one. The caller holds mu.
func (l *Lease) note(why *driver.LostError) *driver.LostError {
	if l.lost == nil {
		l.lost = why
	}
	l.onLost = nil
	return l.lost
}

// lossOf returns err if it says that a lease is lost.
func lossOf(err error) *driver.LostError {
	var lost *driver.LostError
	switch {
	case errors.As(err, &lost):
		return lost
	case errors.Is(err, driver.ErrLost), errors.Is(err, driver.ErrReleased):
		return &driver.LostError{Reason: driver.Gone}
	}
	return nil
}

const (
	askAtOnce      = 4 // leases to confirm at a time
	confirmTimes   = 5
	confirmTimeout = time.Second
	confirmAgain   = 200 * time.Millisecond // after a request without an answer

	declineTimeout = time.Second // for giving back a name whose waiter has left

	// leastTTL, as the TTL of a renewal, asks whether a lease is still there, without extending it.
	leastTTL = time.Microsecond
)

// confirmSoon starts confirmAll unless it runs already. The caller holds mu.
func (p *Participant) confirmSoon() {
	if !p.confirming {
		p.confirming = true
		p.inBackground(p.confirmAll)
	}
}

// confirmAll asks the store for each lease whose events may have been lost. The server may have been replaced by one
// that does not know the lease and has granted the name again. The next renewal would show that too, but much later.
func (p *Participant) confirmAll() {
	for all := p.toConfirm(); len(all) > 0; all = p.toConfirm() {
		var asked sync.WaitGroup
		places := make(chan struct{}, askAtOnce)
		for _, l := range all {
			places <- struct{}{}
			asked.Go(func() {
				l.confirm(p.ctx)
				<-places
			})
		}
		asked.Wait()
	}
}

// toConfirm returns the leases to confirm. If there are none, confirmAll ends.
func (p *Participant) toConfirm() (all []*Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.leases {
		if l.unconfirmed && l.state == held {
			l.unconfirmed = false
			all = append(all, l)
		}
	}
	if len(all) == 0 || p.ctx.Err() != nil {
		p.confirming = false
		return nil
	}
	slices.SortFunc(all, func(a, b *Lease) int { return cmp.Compare(a.token, b.token) })
	return all
}

// confirm asks the store for a lease, up to confirmTimes, and ends it if the store no longer has it.
func (l *Lease) confirm(ctx context.Context) {
	for range confirmTimes {
		if ctx.Err() != nil || l.over() != nil {
			return
		}
		one, cancel := context.WithTimeout(ctx, confirmTimeout)
		_, err := l.p.store.Renew(one, l.ref, leastTTL)
		cancel()
		if err == nil {
			return
		}
		if lost := lossOf(err); lost != nil {
			l.p.mu.Lock()
			defer l.p.mu.Unlock()
			l.lose(lost)
			return
		}
		_ = pauseFor(ctx, confirmAgain)
	}
}
