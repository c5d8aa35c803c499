// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	askAtOnce      = 4 // leases that are asked for at a time
	confirmTimes   = 5
	confirmTimeout = time.Second
	confirmAgain   = 200 * time.Millisecond // after a request without an answer

	declineTimeout = time.Second // of a claim whose waiter has left

	// leastTTL asks whether a lease still holds the name and makes it no longer.
	leastTTL = time.Microsecond
)

// confirmSoon begins to ask for the leases that are unconfirmed. The caller holds mu.
func (p *Participant) confirmSoon() {
	if !p.confirming {
		p.confirming = true
		p.inBackground(p.confirmAll)
	}
}

// confirmAll asks for the leases of which an event may have been lost, until there are none. Their server may have been
// replaced: the new one may not know them, and somebody else may have the names. The next renewal would find that out,
// but may come much later.
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

// toConfirm returns the leases to ask for. If there are none, confirmAll ends.
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

// confirm asks for a lease until there is an answer, but not for ever, and ends it if the store does not have it any more.
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

// saw reads a server's clock from an answer. If the clock was set forward, it ends the leases that the
// server has certainly ended by that.
func (p *Participant) saw(c driver.Clock, heard driver.Instant) {
	if c.At == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	server := p.clock(c.Server)
	step, news := server.saw(c.Sent, heard, c.At.Microseconds())
	if step == 0 {
		return
	}
	if news && p.opts.News != nil {
		p.opts.News(driver.News{Server: c.Server, Step: step})
	}
	for _, l := range p.leases {
		if l.state == held && l.clock == server && l.term.endedBy(step, heard) {
			l.lose(&driver.LostError{Reason: driver.Gone, Err: fmt.Errorf("the server's clock was set forward by %v", step.Round(time.Millisecond))})
		}
	}
}

// clock returns the clock of a server. The caller holds mu.
func (p *Participant) clock(server string) *clock {
	c := p.clocks[server]
	if c == nil {
		c = new(clock)
		p.clocks[server] = c
	}
	return c
}
