// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"time"

	"github.com/pawl-go/pawl"
)

// Outage tracks whether the store answers. During an outage the notice says so, and nothing about the queue.
type Outage struct {
	Servers bool      // the store has servers, so it may be unavailable
	since   time.Time // when the outage began; zero: the store answers
	again   time.Time // when to print the outage again
	holder  overdue
}

// Told completes a notice and reports whether to print it now.
func (o *Outage) Told(n *Notice, now time.Time) bool {
	switch {
	case n.Failed == nil && o.since.IsZero():
		return o.holder.news(n, now) || n.Tell
	case n.Failed == nil:
		n.Back = now.Sub(o.since)
		o.since = time.Time{}
		return true
	case o.since.IsZero():
		o.since, o.again = n.Began, time.Time{}
	}
	n.Away = now.Sub(o.since)
	if now.Before(o.again) {
		return false // already printed; further news of the same outage changes nothing
	}
	o.again = now.Add(min(max(n.Away, 5*time.Second), time.Minute))
	return true
}

// overdue notices that nobody renews the holder's lease any more, for example because the holder was killed. Then
// the waiter is told when the lease ends.
type overdue struct {
	lease string
	seen  time.Time // when we first saw the lease with this end
	ends  time.Time
	told  bool
	// renewed is set when the lease has been renewed while we watched. Then somebody renews it, even if Gone
	// says that its process has ended: the process may be in another container, or the lease comes
	// from pawl acquire.
	renewed bool
}

// news sets n.ends if the lease is overdue, and reports whether to print that.
// A client renews a lease after a third of its TTL. When we first saw the lease, at most the TTL was
// left. So if half of that time has passed without a renewal, a renewal is overdue.
func (o *overdue) news(n *Notice, now time.Time) bool {
	if n.Info == nil {
		return false
	}
	if len(n.Info.Holders) != 1 || n.Info.Holders[0].Expires.IsZero() || n.Info.Holders[0].Transaction != nil {
		*o = overdue{}
		return false
	}
	h := n.Info.Holders[0]
	// The lease is renewed if its end has moved by more than a quarter. A smaller move may be rounding: some
	// stores tell the end in whole seconds.
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

// Gone reports whether h is a process of this host that has ended.
func Gone(h pawl.Holder) bool { return h.Here() && processGone(h.PID) }

// AcquireCommand is the holder's command, as other users see it, for a lease of pawl acquire.
const AcquireCommand = "pawl acquire"
