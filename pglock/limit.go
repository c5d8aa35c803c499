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

// term is a MaxTTL, and the driver.Holder that has set it, as JSON.
type term struct {
	ttl time.Duration
	by  string
}

func (t term) holder() *driver.Holder {
	return storekit.Signed(t.by)
}

func (t term) String() string {
	if h := t.holder(); h != nil {
		return fmt.Sprintf("%v, set by %v", t.ttl, h)
	}
	return t.ttl.String()
}

// limit is what a participant knows of MaxTTL. The store has it, and each grant is
// checked against it there. Other than a Redis, a server that may lack leases still has
// MaxTTL: so the participants need not have the same, and use the store's.
type limit struct {
	own      time.Duration
	explicit bool
	who      string
	note     func(text string) // nil: nobody wants to know

	mu     sync.Mutex
	learnt term
}

func newLimit(own time.Duration, who driver.Holder) *limit {
	return &limit{own: cmp.Or(own, pawl.DefaultTTL), explicit: own != 0, who: storekit.Signature(who)}
}

// disagreement is driver.ErrDisagree with what to do.
type disagreement struct{ text string }

func (d *disagreement) Error() string        { return d.text }
func (d *disagreement) Is(target error) bool { return target == driver.ErrDisagree }

// check returns an error for a TTL that is longer than the participant may use.
func (l *limit) check(ttl time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ttl <= max(l.own, l.learnt.ttl) {
		return nil
	}
	unless := ""
	if !l.explicit {
		unless = " unless set"
	}
	long := storekit.Typed(ttl)
	return &disagreement{fmt.Sprintf("TTL %s is longer than MaxTTL, which is %s%s: use a shorter one, as leases are renewed, "+
		"or set MaxTTL with pawl max-ttl %s and ?max_ttl=%s in the URL of each client", long, storekit.Typed(l.own), unless, long, long)}
}

// tooLong is what the store says of a TTL.
func (l *limit) tooLong(ttl, longest time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.learnt.ttl != longest {
		l.learnt = term{ttl: longest}
	}
	return &disagreement{fmt.Sprintf("TTL %s is longer than the store's MaxTTL, which is %v: use a shorter one, as leases are renewed, "+
		"or raise MaxTTL with pawl max-ttl %[1]s", storekit.Typed(ttl), l.learnt)}
}

// learn adopts the store's MaxTTL.
func (l *limit) learn(t term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.note != nil && l.learnt != t && l.explicit && l.own > t.ttl {
		l.note(fmt.Sprintf("MaxTTL is %v here, but %v in the store: longer TTLs are refused; set it here (?max_ttl=), or for all with pawl max-ttl %v", l.own, t, l.own))
	}
	l.learnt = t
}

// longest returns for how long leases in the store may last, as far as is known.
func (l *limit) longest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.own, l.learnt.ttl)
}
