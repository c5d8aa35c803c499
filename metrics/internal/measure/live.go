// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"sync"
	"time"

	"github.com/pawl-go/pawl"
)

// silenceLasts is how long a server counts as silent after an event that says so. The client repeats the event
// each minute.
const silenceLasts = 75 * time.Second

// live contains the facts that change while no event comes: the ages of leases, and the state of the servers.
type live struct {
	mu     sync.Mutex
	held   map[string]hold      // by Event.Lease, which is unique among the leases that are held
	groups map[Group]bool       // the groups that have ever had a lease
	opens  map[string]time.Time // when the quarantine of a server ends
	silent map[string]silence   // by server
}

type hold struct {
	group Group
	since time.Time
}

type silence struct{ since, told time.Time }

func (l *live) acquired(e pawl.Event, g Group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[e.Lease] = hold{g, time.Now()}
	l.groups[g] = true
}

func (l *live) ended(e pawl.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, e.Lease)
}

func (l *live) closed(e pawl.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opens[e.Server] = time.Now().Add(e.Left)
}

func (l *live) silenced(e pawl.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.silent[e.Server] = silence{now.Add(-e.Waited), now}
}

// Gauges calls f with the present value of each Gauge. f must not block.
func (m *Meter) Gauges(f func(i *Instrument, value float64, labels ...string)) {
	l := &m.live
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	oldest := make(map[Group]time.Duration, len(l.groups))
	for _, h := range l.held {
		oldest[h.group] = max(oldest[h.group], now.Sub(h.since))
	}
	for g := range l.groups {
		f(OldestHeld, oldest[g].Seconds(), g.labels(OldestHeld)...)
	}
	for server, at := range l.opens {
		f(Quarantine, max(0, at.Sub(now)).Seconds(), server)
	}
	for server, s := range l.silent {
		long := now.Sub(s.since)
		if now.Sub(s.told) >= silenceLasts {
			long = 0
		}
		f(Silent, long.Seconds(), server)
	}
}
