// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"fmt"
	"strings"
	"time"
)

// Op is a kind of call to a driver.
type Op int

const (
	AnyOp Op = iota
	TryAcquire
	Acquire
	Renew
	Release
	Downgrade
	Inspect // and List
	Break
)

func (op Op) String() string {
	return [...]string{"AnyOp", "TryAcquire", "Acquire", "Renew", "Release", "Downgrade", "Inspect", "Break"}[op]
}

// Effect is what goes wrong with a call.
type Effect int

const (
	// FailBefore: nothing is done; the error is driver.ErrUnavailable.
	FailBefore Effect = iota
	// FailAfter: it is done, but the answer is lost. The error is
	// driver.ErrUncertain if a grant may have been recorded.
	FailAfter
	// SlowBefore: the request takes Delay to arrive, and is done then even if the
	// caller has given up.
	SlowBefore
	// SlowAfter: it is done at once; the answer takes Delay.
	SlowAfter
	// Hang: nothing is done; the call returns when its context ends.
	Hang
)

func (f Effect) String() string {
	return [...]string{"FailBefore", "FailAfter", "SlowBefore", "SlowAfter", "Hang"}[f]
}

// Rule makes calls go wrong. The zero value fails every call before it does
// anything.
type Rule struct {
	Op     Op            // AnyOp: every kind
	Name   string        // of the lock; empty: every name
	After  int           // how many calls that match are let pass first
	Count  int           // how many calls go wrong then; 0: all
	Effect Effect        // what happens to them
	Delay  time.Duration // for SlowBefore and SlowAfter
}

// String returns the rule in Go syntax, so that a plan that has failed can be
// pasted into a test.
func (r Rule) String() string {
	var fields []string
	add := func(set bool, format string, v any) {
		if set {
			fields = append(fields, fmt.Sprintf(format, v))
		}
	}
	add(r.Op != AnyOp, "Op: drivertest.%v", r.Op)
	add(r.Name != "", "Name: %q", r.Name)
	add(r.After != 0, "After: %d", r.After)
	add(r.Count != 0, "Count: %d", r.Count)
	add(true, "Effect: drivertest.%v", r.Effect)
	add(r.Delay != 0, "Delay: %d * time.Microsecond", r.Delay.Microseconds())
	return "{" + strings.Join(fields, ", ") + "}"
}
