// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// What tells a silent node from a busy one: a node owes an answer since the first request
// that was sent after the last answer. So an idle node is not silent, many requests that meet the same
// stall are one silence, and a node that answers requests one after the other owes for as long as one
// of them takes.

// owing is since when a node owes an answer. The member's mutex guards it.
type owing struct {
	since   driver.Instant // 0 if it owes none
	noticed driver.Instant // when somebody saw that half of the time had passed; 0 if nobody has
	heard   driver.Instant // when it has answered last
}

// silentSince returns the owing of a node that is silent from the beginning.
func silentSince(now driver.Instant) owing {
	long := now.Add(-time.Hour)
	return owing{since: long, noticed: long}
}

// asked records that a request is sent.
func (o *owing) asked(now driver.Instant) {
	if o.since == 0 {
		o.since, o.noticed = now, 0
	}
}

// answered records that a request was answered, by the node or by what refuses a connection to it, and whether
// others are awaited.
func (o *owing) answered(now driver.Instant, byNode, more bool) {
	if byNode {
		o.heard = now
	}
	if o.since, o.noticed = 0, 0; more {
		o.since = now
	}
}

// silent reports whether the node has answered nothing for limit. Somebody must have noticed that half-way, or a process
// that was stopped for a while would take all nodes for silent before it reads their answers.
func (o *owing) silent(now driver.Instant, limit time.Duration) bool {
	half := limit / 2
	if o.since == 0 || now.Sub(o.since) < half {
		return false
	}
	if o.noticed == 0 {
		o.noticed = now
	}
	return now.Sub(o.since) >= limit && now.Sub(o.noticed) >= limit-half
}

// answers reports whether the node has answered since an instant, and notices if it owes an answer.
func (m *member) answers(since driver.Instant) bool {
	m.quiet()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owes.heard >= since
}

// quiet reports whether the node is silent.
func (m *member) quiet() bool {
	limit := m.d.timeout(m.d.ttl)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owes.silent(driver.Now(), limit)
}
