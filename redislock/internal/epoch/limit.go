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

// MaxTTL is the longest TTL of any lease in a store, and so the length of a quarantine.
// All participants must use the same MaxTTL. So the store keeps it in the record of the
// epoch, and checks each grant against it. The first participant that asks for a lease
// sets it; Set changes it.
//
// A server that has lost its data has also lost MaxTTL. So each participant reports to
// it the MaxTTL that it has learnt. A participant that knows only its own MaxTTL must
// report enough too. So the store refuses a participant whose own MaxTTL is shorter
// than the store's. A longer one does no harm: the participant still cannot use a TTL
// longer than the store's.

// Term is a MaxTTL with the change that has set it. Of two Terms, the one with the later
// change counts. If the changes are the same, as at the beginning, the longer TTL counts.
type Term struct {
	storekit.MaxTTL
	Change int64 // 0 or 1 at first, later the server's time of the change in microseconds
}

// Before reports whether next replaces t: its change is later, or is the same with a longer TTL.
func (t Term) Before(next Term) bool {
	return cmp.Or(cmp.Compare(t.Change, next.Change), cmp.Compare(t.TTL, next.TTL)) < 0
}

// Limit holds what one participant knows of MaxTTL. The servers of a cluster share one
// Limit, and so do the nodes of Redlock.
type Limit struct {
	own      time.Duration // this participant's MaxTTL
	explicit bool          // own comes from the options, not from the default
	who      string        // this participant
	// Note is called with text for the log. It may be nil, and must not block.
	Note func(text string)

	mu     sync.Mutex // guards the fields below, up to noted
	learnt Term       // from the store
	// settled is set when the store has answered that it is not in quarantine. Then it
	// has forgotten no lease, and no lease is longer than its MaxTTL. From then on the
	// participant's own MaxTTL does not count.
	settled bool
	ends    driver.Instant // when the last lease ends that is longer than learnt; 0 if there is none
	agreed  bool           // agree has succeeded: a later, longer MaxTTL of the store is no error
	noted   Term           // for which note has logged

	had    atomic.Bool            // the participant has had a lease in the store
	theirs atomic.Pointer[string] // in a cluster: the layout of clients with another Pattern, which have a slot
}

// NewLimit returns the Limit of a participant with the MaxTTL own, or pawl.DefaultTTL if own
// is 0.
func NewLimit(own time.Duration, who driver.Holder) *Limit {
	return &Limit{own: cmp.Or(own, pawl.DefaultTTL), explicit: own != 0, who: storekit.Signature(who)}
}

// Own returns the participant's own MaxTTL.
func (l *Limit) Own() time.Duration { return l.own }

// Longest returns for how long leases in the store may last from now, as far as the participant knows.
func (l *Limit) Longest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.own, l.learnt.TTL, l.rest())
}

// Check returns an error for a TTL that is longer than both the participant's own MaxTTL and the store's.
func (l *Limit) Check(ttl time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ttl <= max(l.own, l.learnt.TTL) {
		return nil
	}
	return storekit.RefuseHere(ttl, l.own, l.explicit)
}

// now returns the Term that the participant has learnt from the store.
func (l *Limit) now() Term {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.learnt
}

// learn records an answer of the store.
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

// rest returns for how long leases that are longer than MaxTTL may still last. The caller holds l.mu.
func (l *Limit) rest() time.Duration {
	if l.ends == 0 {
		return 0
	}
	return max(0, l.ends.Sub(driver.Now()))
}

// agree returns an error if the participant must not get grants: its own MaxTTL is too short.
func (l *Limit) agree() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.learnt
	switch {
	case t.TTL == 0:
		return nil // the request for a grant is about to set it
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

// doubts reports whether the store may have lost a longer MaxTTL than it has now.
func (l *Limit) doubts() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.settled && l.learnt.Change == 0 && l.own > l.learnt.TTL
}

// note logs that the participant's MaxTTL differs from t, once for each t. The caller holds l.mu.
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

// args returns the arguments of epoch.lua. With Trust and Setting the store takes the participant's own MaxTTL, if it is
// explicit.
func (l *Limit) args(mode, away string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, t, had := l.own, l.learnt, ""
	switch {
	case mode == Trust || mode == Setting:
		if t = (Term{}); l.explicit {
			t.TTL = own
		}
	case l.settled:
		own = t.TTL
	}
	if l.had.Load() {
		had = "1"
	}
	return []string{mode, Millis(own), Millis(t.TTL), strconv.FormatInt(t.Change, 10), away,
		cmp.Or(t.By, l.who), Millis(l.rest()), l.who, "", "", had}
}
