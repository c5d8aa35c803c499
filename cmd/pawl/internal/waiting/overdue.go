// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"time"

	"github.com/pawl-go/pawl"
)

// overdue notices that the lease for which somebody waits is not renewed any more, as that of
// a process that was killed: then it ends by itself, and a waiter is told when.
type overdue struct {
	lease string
	seen  time.Time // first with this end
	ends  time.Time
	told  bool
	// renewed: somebody renews it whose process is not seen here, as in another container, or whose own has
	// ended, as after pawl acquire.
	renewed bool
}

// news notes in n for how long the lease still lasts, and reports whether that is to be told.
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

// Gone reports whether a process that could be seen from here is no more.
func Gone(h pawl.Holder) bool { return h.Here() && processGone(h.PID) }

// AcquireCommand is what others are shown as the command that holds such a lease.
const AcquireCommand = "pawl acquire"
