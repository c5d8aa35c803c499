// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// How does a client tell a silent node from a busy one? A node owes an answer since the first request
// that was sent after its last answer. So an idle node is not silent. Many requests during one stall
// count as one silence. A node that answers requests one after the other owes an answer only for as
// long as one of them takes.

// owing is since when a node owes an answer. The member's mutex guards it.
type owing struct {
	since   driver.Instant // 0 if it owes none
	noticed driver.Instant // when silent first saw that half of the limit had passed; 0 if it has not
	heard   driver.Instant // when the node answered last
}

// silentSince returns the owing of a node that counts as silent from the beginning.
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

// answered records that a request was answered: by the node, or, if byNode is false, by a refused connection. more
// says that other requests still wait for answers.
func (o *owing) answered(now driver.Instant, byNode, more bool) {
	if byNode {
		o.heard = now
	}
	if o.since, o.noticed = 0, 0; more {
		o.since = now
	}
}

// silent reports whether the node has answered nothing for limit. It must also have been called half-way: otherwise a
// process that was stopped for a while would take all nodes for silent before it reads their answers.
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

// answers reports whether the node has answered since an instant. It calls quiet, which notices a silence half-way.
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
