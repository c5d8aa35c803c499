// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kind says what happens in an Event.
type Kind string

const (
	// Of clients.
	Asks     Kind = "asks"     // a client begins to ask for the lock
	Granted  Kind = "granted"  // it has a lease, which it trusts from now on
	Failed   Kind = "failed"   // it has none
	Renewed  Kind = "renewed"  // the lease begins its TTL anew
	Ended    Kind = "ended"    // the client no longer trusts the lease: its deadline has passed, or the store said so
	Released Kind = "released" // the client gives it back
	Stopped  Kind = "stopped"  // the client stands still until Until, like a paused process
	Writes   Kind = "writes"   // it sends something to the resource

	// Of nodes.
	Took      Kind = "took"    // a node gave the lock to a lease, until Until unless the client renews
	Renews    Kind = "renews"  // a node began a lease's TTL anew
	Refused   Kind = "refused" // a node said no
	Freed     Kind = "freed"   // a node let go of the lock
	Crashed   Kind = "crashed" // a node is down until Until
	Back      Kind = "back"    // a node is up again; it grants nothing new before Until
	Forgot    Kind = "forgot"  // a node has lost what it knew
	Steps     Kind = "steps"   // a node's clock is set
	CutOff    Kind = "cut off" // a link carries nothing until Until
	SlowLinks Kind = "slow"    // a link is slow until Until

	// Of the resource.
	Accepted Kind = "accepted" // it took a write
	Rejected Kind = "rejected" // it refused one, for its token
)

// Event is one thing that happened. Lanes are "client 1", "node A", "resource".
type Event struct {
	At     time.Duration // since the beginning
	Lane   string
	Kind   Kind
	Client int           // from 1; 0 if none is concerned
	Node   int           // from 1; 0 if none is concerned
	Lease  int           // the number of the lease, in the order of the asking; 0 if none
	Token  uint64        // of the lease or write; 0 if there is none
	Until  time.Duration // see Kind; 0 if it does not apply
	Text   string        // more about it
}

func (e Event) String() string {
	s := fmt.Sprintf("%12v  %-9s %s", e.At.Round(time.Microsecond), e.Lane, e.Kind)
	if e.Client > 0 && e.Lane != ClientLane(e.Client) {
		s += fmt.Sprintf(" client %d", e.Client)
	}
	if e.Node > 0 && e.Lane != NodeLane(e.Node) {
		s += " " + NodeLane(e.Node)
	}
	if e.Lease > 0 {
		s += fmt.Sprintf(" lease %d", e.Lease)
	}
	if e.Token > 0 {
		s += fmt.Sprintf(" token %d", e.Token)
	}
	if e.Until > 0 {
		s += fmt.Sprintf(" until %v", e.Until.Round(time.Microsecond))
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// ClientLane returns the lane of a client: "client 1" is the first.
func ClientLane(i int) string { return fmt.Sprintf("client %d", i) }

// NodeLane returns the lane of a node: "node A" is the first.
func NodeLane(i int) string { return "node " + string(rune('A'+i-1)) }

// ResourceLane is the lane of the resource.
const ResourceLane = "resource"

// Rule is something that must never happen.
type Rule string

const (
	TwoHolders Rule = "two holders"
	TokenOrder Rule = "a token that is not greater"
	StaleWrite Rule = "a write of a former holder after one of a later holder"
	Stuck      Rule = "nobody gets a free lock"
	LeftBehind Rule = "a lock without a holder"
)

// Violation is a Rule that was broken.
type Violation struct {
	At   time.Duration
	Rule Rule
	Text string
}

func (v Violation) String() string {
	return fmt.Sprintf("%v: %s: %s", v.At.Round(time.Microsecond), v.Rule, v.Text)
}

// History is what happened in one run of a Plan.
type History struct {
	Plan       Plan
	Events     []Event // in order of time
	Violations []Violation
	Grants     int // leases that were granted
}

// String returns the events and the violations, one a line.
func (h *History) String() string {
	var s strings.Builder
	bad := h.Violations
	tell := func(until time.Duration) {
		for ; len(bad) > 0 && bad[0].At <= until; bad = bad[1:] {
			fmt.Fprintln(&s, "FORBIDDEN", bad[0])
		}
	}
	for _, e := range h.Events {
		tell(e.At)
		fmt.Fprintln(&s, e)
	}
	tell(math.MaxInt64)
	return s.String()
}

// recorder collects a History.
type recorder struct {
	mu    sync.Mutex
	begin time.Time
	h     History
}

func (r *recorder) now() time.Duration { return time.Since(r.begin) }

func (r *recorder) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = r.now()
	r.h.Events = append(r.h.Events, e)
}

func (r *recorder) violated(rule Rule, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Violations = append(r.h.Violations, Violation{r.now(), rule, fmt.Sprintf(format, args...)})
}

// finish returns the history. It sorts the events of one instant in an order that does
// not depend on the machine.
func (r *recorder) finish() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.h
	slices.SortStableFunc(h.Events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Lease, b.Lease), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Client, b.Client))
	})
	return &h
}
