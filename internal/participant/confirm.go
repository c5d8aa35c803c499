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

// saw notes the time that a server's clock showed in an answer. If the clock was set forward, it ends the leases
// that the server has certainly ended because of that.
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
