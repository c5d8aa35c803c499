// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"
)

// outage is what a waiter knows of its store: whether it answers at all. Nobody is next
// in the queue of a store that is gone.
type outage struct {
	servers bool      // the store has some, which may be away
	since   time.Time // zero: it answers
	again   time.Time // when it is told again
	holder  overdue
}

// told completes a notice and reports whether it is to be told now.
func (o *outage) told(n *notice, now time.Time) bool {
	switch {
	case n.failed == nil && o.since.IsZero():
		return o.holder.news(n, now) || n.tell
	case n.failed == nil:
		n.back = now.Sub(o.since)
		o.since = time.Time{}
		return true
	case o.since.IsZero():
		o.since, o.again = n.began, time.Time{}
	}
	n.away = now.Sub(o.since)
	if now.Before(o.again) {
		return false // it has been told, also if news of the silence came later
	}
	o.again = now.Add(min(max(n.away, 5*time.Second), time.Minute))
	return true
}
