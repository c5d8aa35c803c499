// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// heard makes all waiters of a subscription look: messages that were sent while it was
// closed are lost, and the server may have dropped waiters that it could not reach.
func (s *store) heard(sub *conn.Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.waiters {
		if w.subscription == sub {
			w.granted = true
			w.poke()
		}
	}
}

func (w *waiter) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// hear acts on one message.
func (s *store) hear(from conn.Session, message string) {
	kind, rest, _ := strings.Cut(message, " ")
	lease, rest, _ := strings.Cut(rest, " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	w, g := s.waiters[lease], s.grants[lease]
	switch kind {
	case "grant":
		key, told := splitGrant(s.layout, rest)
		if w != nil {
			w.granted, w.handed = true, readHanded(from, told)
			w.poke()
		} else if g == nil && s.ctx.Err() == nil {
			s.work.Go(func() { s.decline(lease, key) })
		}
	case "first":
		if ms, err := strconv.ParseInt(rest, 10, 64); err == nil && w != nil {
			w.first, w.expires = true, time.Duration(ms)*time.Millisecond
			w.poke()
		}
	case "wanted":
		how := driver.Waits
		if rest == "0" {
			how = driver.Asks
		}
		if w != nil && w.recall != nil {
			w.recall.Put(how)
		} else if g != nil && g.recall != nil {
			g.recall.Put(how)
		}
	case "lost":
		if w != nil { // the waiter looks, and finds out
			w.handed = nil
		}
		if g != nil {
			g.lose(storekit.HowLost(rest))
		}
	}
}

// decline gives back a lock that was handed to a waiter that has left.
func (s *store) decline(lease, key string) {
	ctx, cancel := context.WithTimeout(s.ctx, claimTTL)
	defer cancel()
	g := &grant{s: s, key: key, lease: lease}
	// If the server does not answer, the claim ends by itself.
	_, _ = g.release(ctx)
}
