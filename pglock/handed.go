// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// handed is a message that hands a name to a waiter.
type handed struct {
	storekit.Claim
	token    uint64
	timeline int
	spare    uint64 // as in grant
	waits    bool
	from     session
}

// look is a request that found the name held, sent while this session listened.
type look struct {
	storekit.Look
	from session
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
		Claim: storekit.Claim{At: time.Duration(n[1]) * time.Microsecond, For: time.Duration(n[2]) * time.Microsecond, Heard: driver.Now()},
		token: uint64(n[0]), timeline: int(n[3]), spare: uint64(n[4]), waits: n[5] != 0, from: from,
	}
}

// take turns the name that was handed to a waiter into a grant, or returns nil if the
// waiter has to look: if the claim cannot be trusted, if the message is of another
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
	term, ok := h.Term(w.seen.Look, ttl, driver.Now())
	if !ok {
		return nil
	}
	g := a.begin(h.token, term.Since(ttl), term)
	g.spare, g.others = h.spare, h.waits
	return g
}
