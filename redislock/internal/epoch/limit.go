// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"cmp"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// MaxTTL is the longest TTL of any lease in a store, and so the length of the
// quarantine where leases may have been forgotten. It works only if all participants
// have the same. So it is in the record of the epoch, and each grant is checked against
// it. The first participant that writes sets it, and Set changes it.
//
// A server that has lost its data does not know it any more. So a participant reports
// the MaxTTL that it has learnt there. A participant that would not know enough by
// itself is refused from the beginning: its own MaxTTL must not be less than the
// store's. A larger one does no harm: the participant may only use the store's.

// Term is a MaxTTL with the change that it is from. The record with the later change
// counts; of two with the same change, as at the beginning, the one with the longer
// TTL.
type Term struct {
	storekit.MaxTTL
	Change int64 // 0 or 1 at first, later the server's time in microseconds
}

// Before reports whether next is from a later change, or longer.
func (t Term) Before(next Term) bool {
	return cmp.Or(cmp.Compare(t.Change, next.Change), cmp.Compare(t.TTL, next.TTL)) < 0
}

// Limit is what one participant knows of MaxTTL. The servers of a cluster share one
// Limit, and so do the nodes of Redlock.
type Limit struct {
	own      time.Duration
	explicit bool
	who      string
	// Note is called with text for the log. It may be nil, and must not block.
	Note func(text string)

	mu     sync.Mutex
	learnt Term
	// settled is set when the store was seen to be open: then it has forgotten no
	// lease, and none is longer than its MaxTTL. The participant's own MaxTTL does not
	// count any more.
	settled bool
	ends    driver.Instant // of the last lease that is longer than learnt
	agreed  bool           // it may get grants, and adopts what it learns from now on
	noted   Term

	had    atomic.Bool            // it has had a lease in the store
	theirs atomic.Pointer[string] // the layout of clients with other keys, which a slot of the cluster has
}

// NewLimit returns the Limit of a participant that takes MaxTTL for own, or for
// pawl.DefaultTTL if that is 0.
func NewLimit(own time.Duration, who driver.Holder) *Limit {
	return &Limit{own: cmp.Or(own, pawl.DefaultTTL), explicit: own != 0, who: storekit.Signature(who)}
}

// Own returns the participant's own MaxTTL.
func (l *Limit) Own() time.Duration { return l.own }

// Longest returns for how long leases in the store may last from now, as far as is known.
func (l *Limit) Longest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.own, l.learnt.TTL, l.rest())
}

// Check returns an error for a TTL that is longer than the participant may use: the store
// refuses it, or would not grant it anything.
func (l *Limit) Check(ttl time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ttl <= max(l.own, l.learnt.TTL) {
		return nil
	}
	return storekit.RefuseHere(ttl, l.own, l.explicit)
}

// now returns what is known of the store.
func (l *Limit) now() Term {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.learnt
}

// learn records what a store has said.
func (l *Limit) learn(is Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if is.rest > 0 {
		l.ends = max(l.ends, driver.Now().Add(is.rest))
	}
	if is.TTL == 0 {
		return
	}
	l.settled = l.settled || is.Closed == 0
	if l.learnt.Before(is.Term) {
		l.learnt = is.Term
	}
}

// rest returns for how long leases may go on that are longer than MaxTTL. l.mu is held.
func (l *Limit) rest() time.Duration {
	if l.ends == 0 {
		return 0
	}
	return max(0, l.ends.Sub(driver.Now()))
}

// agree returns why the participant must not get grants, or nil.
func (l *Limit) agree() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.learnt
	switch {
	case t.TTL == 0:
		return nil // it is about to set it
	case !l.agreed && l.own < t.TTL:
		what := fmt.Sprintf("MaxTTL is %v here", l.own)
		if !l.explicit {
			what = fmt.Sprintf("no MaxTTL is set here, which means %v", l.own)
		}
		return storekit.Disagreef("%s, but it is %v in the store: after a loss of data this client would not wait for all leases: "+
			"set MaxTTL to %v (?max_ttl=%v)", what, t, t.TTL, t.TTL)
	}
	l.agreed = true
	if l.explicit && l.own != t.TTL || l.own < t.TTL {
		l.note(t)
	}
	return nil
}

// doubts reports whether the store may have lost a MaxTTL that was longer.
func (l *Limit) doubts() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.settled && l.learnt.Change == 0 && l.own > l.learnt.TTL
}

// note logs once that the two differ. l.mu is held.
func (l *Limit) note(t Term) {
	if l.noted == t || l.Note == nil {
		return
	}
	l.noted = t
	if l.own < t.TTL {
		l.Note(fmt.Sprintf("the store's MaxTTL was raised to %v, and is %v here: set it (?max_ttl=%v) before the next start, which is refused otherwise", t, l.own, t.TTL))
		return
	}
	l.Note(fmt.Sprintf("MaxTTL is %v here, but %v in the store: longer TTLs are refused; set it here (?max_ttl=), or for all with pawl max-ttl %v", l.own, t, l.own))
}

// args returns the arguments of the script for the epoch.
func (l *Limit) args(mode, away string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.own
	if l.settled {
		own = l.learnt.TTL
	}
	had := ""
	if l.had.Load() {
		had = "1"
	}
	return []string{mode, Millis(own), Millis(l.learnt.TTL), strconv.FormatInt(l.learnt.Change, 10), away,
		cmp.Or(l.learnt.By, l.who), Millis(l.rest()), l.who, "", "", had}
}

// changeArgs returns the arguments for bless and set, which make the participant's own MaxTTL the store's.
func (l *Limit) changeArgs(mode string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := "0"
	if l.explicit {
		own = Millis(l.own)
	}
	return []string{mode, Millis(l.own), own, "0", "", l.who, Millis(l.rest()), l.who, "", "", ""}
}
