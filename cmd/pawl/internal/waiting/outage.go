// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"time"
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
