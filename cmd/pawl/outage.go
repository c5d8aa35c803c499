// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
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

// pace is how long to wait until the next look. One look costs the store as much as there are waiters,
// and each of them looks.
func pace(n notice) time.Duration {
	d := time.Second
	if n.info != nil {
		d += time.Duration(len(n.info.Waiters)) * 20 * time.Millisecond
	}
	return d
}

// silence says that the store does not answer.
func (n notice) silence(store fmt.Stringer) string {
	text := fmt.Sprintf("%s does not answer", store)
	if n.away > 0 {
		text += fmt.Sprintf(", for %v now", inSeconds(n.away))
	}
	if e := new(pawl.Error); errors.As(n.failed, &e) && !errors.Is(n.failed, context.DeadlineExceeded) {
		text += " (" + shorten(strings.TrimPrefix(plain(e.Err), pawl.ErrUnavailable.Error()+": "), 200) + ")"
	}
	return text
}

// inSeconds rounds up: nothing lasts for 0s.
func inSeconds(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }
