// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// PostgreSQL has only a wall clock: if that is set forward leases end early, if it is set
// back they end late. So answers carry the server's time, which is compared with the local
// clock. A promoted replica whose clock differs has the same effect.

// reading is the server's time, read between the two instants.
type reading struct {
	sent, heard driver.Instant
	at          time.Duration // since 1970
}

// step returns by how much the server's clock has been set forward between two
// readings; negative if back, 0 if it runs as it should.
func (r reading) step(next reading) time.Duration {
	passed := next.at - r.at
	least, most := next.sent.Sub(r.heard), next.heard.Sub(r.sent)
	allowed := driver.Drift(most)
	switch {
	case passed > most+allowed:
		return passed - most
	case passed < least-allowed:
		return passed - least
	}
	return 0
}

// clock has the reading with which later ones are compared.
type clock struct {
	mu   sync.Mutex
	last reading
	told driver.Instant
}

// saw compares an answer's time, in microseconds since 1970. news reports whether a
// step should be told of: once a minute.
func (c *clock) saw(sent, heard driver.Instant, micros int64) (step time.Duration, news bool) {
	next := reading{sent, heard, time.Duration(micros) * time.Microsecond}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch age := heard.Sub(c.last.heard); {
	case c.last.heard == 0:
		c.last = next
	case sent < c.last.heard: // it may be older
	default:
		// The reading that is compared with must not change too often, or a clock that
		// runs too fast would hide in the allowance of each comparison.
		step = c.last.step(next)
		if step != 0 || age > time.Second && heard.Sub(sent) <= c.last.heard.Sub(c.last.sent)+age/100 {
			c.last = next
		}
	}
	if news = step != 0 && (c.told == 0 || heard.Sub(c.told) > time.Minute); news {
		c.told = heard
	}
	return step, news
}

// period is one TTL of a lease: it began in the server between the two instants. The zero
// period is unknown.
type period struct {
	sent, heard driver.Instant
	ttl         time.Duration
}

// saw reads the server's time in an answer. A step forward ends the leases of this
// participant that the server must have ended early; the others are renewed before.
func (s *store) saw(sent driver.Instant, micros int64) {
	now := driver.Now()
	step, news := s.clock.saw(sent, now, micros)
	if news {
		s.report(driver.News{Server: s.where, Step: step})
	}
	if step <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.grants {
		p := g.period
		if p.ttl > 0 && p.heard < now && now.Sub(p.heard) > p.ttl-step {
			g.lose(&driver.LostError{Reason: driver.Gone, Err: fmt.Errorf("the server's clock was set forward by %v", step.Round(time.Millisecond))})
		}
	}
}

// news passes events to the function of OnNews, or keeps them until there is one.
type news struct {
	tell func(driver.News)
	kept []driver.News
}

// OnNews implements driver.Reporter.
func (s *store) OnNews(f func(driver.News)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news.tell = f
	for _, n := range s.news.kept {
		f(n)
	}
	s.news.kept = nil
}

func (s *store) report(n driver.News) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.news.tell == nil {
		s.news.kept = append(s.news.kept, n)
	} else {
		s.news.tell(n)
	}
}
