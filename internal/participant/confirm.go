// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	askAtOnce      = 4           // leases that are asked for at a time
	declineTimeout = time.Second // of a claim that nobody wants

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

// confirmAll asks for the leases of which an event may have been lost, until there are none.
func (p *Participant) confirmAll() {
	for {
		all := p.toConfirm()
		if len(all) == 0 {
			return
		}
		askAll(p.ctx, askAtOnce, all, func(ctx context.Context, l *Lease) bool { return l.confirm(ctx) })
	}
}

// toConfirm returns the leases to ask for. There is nobody who asks any more if there are none.
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

// confirm ends a lease that the store does not have any more, and reports whether there is no more to
// ask.
func (l *Lease) confirm(ctx context.Context) (done bool) {
	if l.over() != nil {
		return true
	}
	_, err := l.p.store.Renew(ctx, l.ref, leastTTL)
	if err == nil {
		return true
	}
	lost := lossOf(err)
	if lost == nil {
		return false
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.lose(lost)
	return true
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
