// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// handed is a message that hands a name to a waiter. The waiter has the name for the
// claim, and has to ask for more in that time. If the caller does that by renewing, the
// message is the grant, and saves a round trip.
//
// The time of its arrival says nothing: the process may have been stopped, or the
// message held up, until somebody else had the name. So the claim counts from the
// server's time in the message, which the waiter's last look maps to the local clock.
type handed struct {
	token    uint64
	at       int64 // by the server, in microseconds since 1970
	claim    time.Duration
	timeline int
	spare    uint64 // as in grant
	waits    bool
	from     session
	heard    driver.Instant
}

// look is a request that found the name held. It was sent before the server's time was
// at, while this session listened.
type look struct {
	from session
	sent driver.Instant
	at   int64
}

// readHanded reads what follows the lease in the message, or returns nil.
func readHanded(from session, told string) *handed {
	f := strings.SplitN(told, " ", 7)
	if len(f) != 7 {
		return nil
	}
	var n [6]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(f[i], 10, 64); err != nil {
			return nil
		}
	}
	return &handed{
		token: uint64(n[0]), at: n[1], claim: time.Duration(n[2]) * time.Microsecond, timeline: int(n[3]),
		spare: uint64(n[4]), waits: n[5] != 0, from: from, heard: driver.Now(),
	}
}

// began returns an instant that is certainly not after the server began to count the
// claim, if the last look allows that. A message from before that look is about a claim
// that was over by then. If the computed instant is after the arrival, the server's
// clock was set forward.
func (h *handed) began(last look) (driver.Instant, bool) {
	passed := time.Duration(h.at-last.at) * time.Microsecond
	began := last.sent.Add(passed - driver.Drift(passed))
	return began, passed >= 0 && began <= h.heard
}

// take turns the name that was handed to a waiter into a grant, or returns nil if the
// waiter has to look: if too little is left of the claim, if the message is of another
// run or came over another connection than was open at the last look, or if the caller
// does not renew and so needs the whole TTL. It decides that and ends the waiting in one
// step, so that news of the lease's end finds either the waiter or the grant.
func (a *attempt) take(w *waiter) *grant {
	s, ttl := a.s, a.req.TTL
	s.mu.Lock()
	defer s.mu.Unlock()
	h := w.handed
	w.handed = nil
	if h == nil || !a.req.Renewed || h.from == 0 || h.from != w.seen.from || h.timeline != s.run.timeline {
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
	g := a.begin(h.token, end.Add(driver.Drift(ttl)-ttl), period{began, h.heard, claim})
	g.spare, g.others = h.spare, h.waits
	return g
}
