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

// limit contains what a client knows of MaxTTL. The server checks each grant against the store's MaxTTL, which it
// knows even if it lacks leases. So clients may have different settings: they use the value of the store.
type limit struct {
	own      time.Duration
	explicit bool
	who      string
	note     func(text string) // nil without a Logger

	mu     sync.Mutex
	learnt storekit.MaxTTL
}

func newLimit(own time.Duration, who driver.Holder) *limit {
	return &limit{own: cmp.Or(own, pawl.DefaultTTL), explicit: own != 0, who: storekit.Signature(who)}
}

// tooLong returns the error for a TTL that the store refuses because it is longer than longest.
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
