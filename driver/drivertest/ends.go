// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// ends is when the leases of a test end that it has got and renewed itself, by token
// and by name. Of a name with several leases it is the last end.
type ends struct {
	mu sync.Mutex
	of map[any]lease
}

type lease struct {
	name string
	end  driver.Instant
}

func (es *ends) set(name string, token uint64, end driver.Instant) {
	es.mu.Lock()
	defer es.mu.Unlock()
	es.of[token] = lease{name, end}
	es.of[name] = lease{name, max(end, es.of[name].end)}
}

func (es *ends) get(tokenOrName any) (lease, bool) {
	es.mu.Lock()
	defer es.mu.Unlock()
	l, ok := es.of[tokenOrName]
	return l, ok
}

// inTime begins the test again if what it should find at a lease is over by now: a machine
// that is busy needs more than a TTL from one step to the next, which says nothing about
// the store. It is called after a check has failed, and hides none: how early a lease ends
// has tests that read the clock.
func (e *env) inTime(tokenOrName any, err error) {
	e.Helper()
	if l, ok := e.ends.get(tokenOrName); ok {
		if by := driver.Now().Sub(l.end.Add(-driver.Drift(e.h.TTL))); by > 0 {
			e.again("this machine is too late by %v for a lease of %q: %v", by.Round(time.Millisecond), l.name, err)
		}
	}
}
