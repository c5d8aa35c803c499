// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// handed is a message that hands a lock to a waiter. The waiter has the lock for the
// claim, and has to ask for more in that time. If the caller does that by renewing, the
// message is the grant, and saves a round trip.
//
// The time of its arrival says nothing: the process may have been stopped, or the
// message held up, until somebody else had the lock. So the claim counts from the
// server's time in the message, which the waiter's last look maps to the local clock.
type handed struct {
	token uint64
	at    time.Duration // of the server, since 1970
	claim time.Duration
	run   string // of the server
	spare uint64 // as in grant
	waits bool
	from  conn.Session // over which it came
	heard driver.Instant
}

// look is a request that found the lock held. It was sent before the server's time was
// at, while this subscription was open.
type look struct {
	by   epoch.Source
	from conn.Session
	sent driver.Instant
	at   time.Duration
}

// of reports whether a message comes from the server of the last look, in the same run
// and over the same connection: the subscription has not ended since. Other servers may
// deliver the messages of that server too, as the replicas in a cluster do.
func (h *handed) of(last look) bool {
	return last.by.Says(h.run) && h.from.By == last.by.Conn && h.from == last.from
}

// readHanded reads what follows the key in the message, or returns nil. It ignores
// further fields.
func readHanded(from conn.Session, told string) *handed {
	f := strings.Fields(told)
	if len(f) < 6 {
		return nil
	}
	token, err1 := strconv.ParseUint(f[0], 10, 64)
	at, err2 := strconv.ParseInt(f[1], 10, 64)
	claim, err3 := strconv.ParseInt(f[2], 10, 64)
	spare, err4 := strconv.ParseUint(f[4], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return nil
	}
	return &handed{
		token: token, at: time.Duration(at) * time.Microsecond, claim: time.Duration(claim) * time.Millisecond,
		run: f[3], spare: spare, waits: f[5] != "0", from: from, heard: driver.Now(),
	}
}

// began returns an instant that is certainly not after the server began to count the
// claim, if the last look allows that. A message from before that look is about a claim
// that was over by then. If the computed instant is after the arrival, the server's
// clock was set forward.
func (h *handed) began(last look) (driver.Instant, bool) {
	passed := h.at - last.at
	began := last.sent.Add(passed - driver.Drift(passed))
	return began, passed >= 0 && began <= h.heard
}

// take turns the lock that was handed to a waiter into a grant, or returns nil if the
// waiter has to look: if too little is left of the claim, if the message is of another
// run, another server or another connection, or if the caller does not renew and so
// needs the whole TTL. It decides that and ends the waiting in one step, so that news
// of the lease's end finds either the waiter or the grant.
func (a *attempt) take(w *waiter) *grant {
	s, ttl := a.s, a.req.TTL
	s.mu.Lock()
	defer s.mu.Unlock()
	h := w.handed
	w.handed = nil
	if h == nil || !s.prompt || !a.req.Renewed || !h.of(w.seen) || !s.server.Has(w.seen.by.Server, a.key) {
		return nil
	}
	began, ok := h.began(w.seen)
	// No claim is longer than the TTL: a quarantine lasts as long as the longest TTL.
	claim := min(h.claim, ttl)
	end := began.Add(claim - driver.Drift(claim))
	if !ok || end.Sub(driver.Now()) < claim/2 {
		return nil
	}
	// Of the TTL, only the claim is left.
	g := a.begin(h.token, end.Add(driver.Drift(ttl)-ttl), term{began, h.heard, claim})
	g.spare, g.others = h.spare, h.waits
	return g
}
