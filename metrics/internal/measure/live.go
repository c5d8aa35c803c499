// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"sync"
	"time"

	"github.com/pawl-go/pawl"
)

// lastsFor is for how long a silence lasts that is not told again: it is told each minute.
const lastsFor = 75 * time.Second

// Live knows what changes while nothing happens: how old leases are, and how a store is.
// The zero value is ready. It may be told of events of several clients at once.
type Live struct {
	mu     sync.Mutex
	held   map[string]hold // by Event.Lease, which no two leases have at the same time
	groups map[Group]struct{}
	opens  map[string]time.Time // when the quarantine of a server ends
	silent map[string]silence
}

type hold struct {
	group Group
	since time.Time
}

type silence struct{ since, told time.Time }

// Acquired notes a lease of the group g.
func (l *Live) Acquired(e pawl.Event, g Group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held, l.groups = map[string]hold{}, map[Group]struct{}{}
	}
	l.held[e.Lease] = hold{g, time.Now()}
	l.groups[g] = struct{}{}
}

// Ended notes a Released or a Lost.
func (l *Live) Ended(e pawl.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, e.Lease)
}

// Closed notes a quarantine.
func (l *Live) Closed(e pawl.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opens == nil {
		l.opens = map[string]time.Time{}
	}
	l.opens[e.Server] = time.Now().Add(e.Left)
}

// Silent notes a silence.
func (l *Live) Silent(e pawl.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent == nil {
		l.silent = map[string]silence{}
	}
	now := time.Now()
	l.silent[e.Server] = silence{now.Add(-e.Waited), now}
}

// Oldest returns the value of OldestHeld for each group that has ever had a lease.
func (l *Live) Oldest() map[Group]time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := make(map[Group]time.Duration, len(l.groups))
	for g := range l.groups {
		oldest[g] = 0
	}
	now := time.Now()
	for _, h := range l.held {
		oldest[h.group] = max(oldest[h.group], now.Sub(h.since))
	}
	return oldest
}

// Quarantines returns the value of Quarantine for each server that has ever had one.
func (l *Live) Quarantines() map[string]time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := make(map[string]time.Duration, len(l.opens))
	for server, at := range l.opens {
		left[server] = max(0, time.Until(at))
	}
	return left
}

// Silences returns the value of Silent for each server that has ever been silent.
func (l *Live) Silences() map[string]time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	long := make(map[string]time.Duration, len(l.silent))
	for server, s := range l.silent {
		if long[server] = 0; time.Since(s.told) < lastsFor {
			long[server] = time.Since(s.since)
		}
	}
	return long
}
