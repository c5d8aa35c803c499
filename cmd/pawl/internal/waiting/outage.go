// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"time"
)

// Outage tracks whether the store answers. In a store that does not answer, nobody is next.
type Outage struct {
	Servers bool      // the store has some, which may be away
	since   time.Time // zero: it answers
	again   time.Time // when to print it again
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
		return false // it has been told, also if news of the silence came later
	}
	o.again = now.Add(min(max(n.Away, 5*time.Second), time.Minute))
	return true
}
