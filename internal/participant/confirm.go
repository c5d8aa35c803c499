// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	askAtOnce      = 4           // leases that are asked for at a time
	declineTimeout = time.Second // of a claim that nobody wants

	// leastTTL asks whether a lease still holds the name and makes it no longer.
	leastTTL = time.Microsecond
)

// confirm ends a lease that the store does not have any more, and reports whether there is no more to
// ask.
func (l *lease) confirm(ctx context.Context) (done bool) {
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
	step, news := server.Saw(c.Sent, heard, c.At.Microseconds())
	if step == 0 {
		return
	}
	if news {
		p.news.Put(driver.News{Server: c.Server, Step: step})
	}
	for _, l := range p.leases {
		if l.state == held && l.clock == server && l.term.Stepped(step, heard) {
			l.lose(&driver.LostError{Reason: driver.Expired})
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
