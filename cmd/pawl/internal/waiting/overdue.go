// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"time"

	"github.com/pawl-go/pawl"
)

// overdue notices a lease that nobody renews any more, because its process was killed: the waiter learns
// when it ends.
type overdue struct {
	lease string
	seen  time.Time // first with this end
	ends  time.Time
	told  bool
	// renewed: it was renewed before. Its process may be hidden, as in another container, or have ended, as
	// after pawl acquire.
	renewed bool
}

// news notes in n how long the lease still lasts, and reports whether to print that.
// A lease is renewed at a third of its TTL, and what was left when it was seen first is no more
// than the TTL. So if half of that has passed without a renewal, one was due.
func (o *overdue) news(n *Notice, now time.Time) bool {
	if n.Info == nil {
		return false
	}
	if len(n.Info.Holders) != 1 || n.Info.Holders[0].Expires.IsZero() || n.Info.Holders[0].Transaction != nil {
		*o = overdue{}
		return false
	}
	h := n.Info.Holders[0]
	// Some stores say when it ends in whole seconds.
	if h.Lease != o.lease || h.Expires.Sub(o.ends) > o.ends.Sub(o.seen)/4 {
		*o = overdue{lease: h.Lease, seen: now, ends: h.Expires, renewed: h.Lease == o.lease}
	}
	left := h.Expires.Sub(now)
	if left <= 0 || now.Sub(o.seen) < o.ends.Sub(o.seen)/2 && (o.renewed || h.Command == AcquireCommand || !Gone(h.Holder)) {
		return false
	}
	n.ends = left
	was := o.told
	o.told = true
	return !was
}

// Gone reports whether a process of this host has ended.
func Gone(h pawl.Holder) bool { return h.Here() && processGone(h.PID) }

// AcquireCommand is the command that others see as the holder of a lease of pawl acquire.
const AcquireCommand = "pawl acquire"
