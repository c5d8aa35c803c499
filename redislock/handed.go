// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// handed is a message that hands a lock to a waiter.
type handed struct {
	storekit.Claim
	token uint64
	run   string // of the server
	spare uint64 // as in grant
	waits bool
	from  conn.Session // over which it came
}

// look is a request that found the lock held, sent while this subscription was open.
type look struct {
	storekit.Look
	by   epoch.Source
	from conn.Session
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
		Claim: storekit.Claim{At: time.Duration(at) * time.Microsecond, For: time.Duration(claim) * time.Millisecond, Heard: driver.Now()},
		token: token, run: f[3], spare: spare, waits: f[5] != "0", from: from,
	}
}

// take turns the lock that was handed to a waiter into a grant, or returns nil if the
// waiter has to look: if the claim cannot be trusted, if the message is of another
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
	term, ok := h.Term(w.seen.Look, ttl, driver.Now())
	if !ok {
		return nil
	}
	g := a.begin(h.token, term.Since(ttl), term)
	g.spare, g.others, g.claim = h.spare, h.waits, true
	return g
}
