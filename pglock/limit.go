// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// limit is what a participant knows of MaxTTL. The store has it, and each grant is
// checked against it there. Other than a Redis, a server that may lack leases still has
// MaxTTL: so the participants need not have the same, and use the store's.
type limit struct {
	own      time.Duration
	explicit bool
	who      string
	note     func(text string) // nil: nobody wants to know

	mu     sync.Mutex
	learnt storekit.MaxTTL
}

func newLimit(own time.Duration, who driver.Holder) *limit {
	return &limit{own: cmp.Or(own, pawl.DefaultTTL), explicit: own != 0, who: storekit.Signature(who)}
}

// tooLong is what the store says of a TTL.
func (l *limit) tooLong(ttl, longest time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.learnt.TTL != longest {
		l.learnt = storekit.MaxTTL{TTL: longest}
	}
	return fmt.Errorf("pglock: %w", l.learnt.Refuse(ttl))
}

// learn adopts the store's MaxTTL.
func (l *limit) learn(t storekit.MaxTTL) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.note != nil && l.learnt != t && l.explicit && l.own > t.TTL {
		l.note(fmt.Sprintf("MaxTTL is %v here, but %v in the store: longer TTLs are refused; set it here (?max_ttl=), or for all with pawl max-ttl %v", l.own, t, l.own))
	}
	l.learnt = t
}
