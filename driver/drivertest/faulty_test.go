// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// TestFaulty shows what each rule does to a request, and what the store has of it a minute later.
func TestFaulty(t *testing.T) {
	for _, c := range []struct {
		rule    Rule
		granted bool
		maybe   bool // if it is not granted
		held    bool // in the store
	}{
		{Rule{Op: Renew}, true, false, true},
		{Rule{Name: "another"}, true, false, true},
		{Rule{After: 1}, true, false, true},
		{Rule{}, false, false, false},
		{Rule{Effect: FailAfter}, false, true, true},
		{Rule{Effect: SlowBefore, Delay: time.Millisecond}, true, false, true},
		{Rule{Effect: SlowBefore, Delay: 30 * time.Second}, false, true, true},
		{Rule{Effect: SlowAfter, Delay: time.Millisecond}, true, false, true},
		{Rule{Effect: SlowAfter, Delay: 30 * time.Second}, false, true, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := NewFaulty(new(memlock.Store).Participant(), c.rule)
			defer f.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			ans, err := f.Ask(ctx, &driver.Request{Name: "a", Lease: "l", TTL: time.Hour, Holder: new(driver.Holder)})
			if ans.Granted != c.granted || err == nil != c.granted || err != nil && driver.FailureOf(err).Maybe != c.maybe {
				t.Errorf("%+v: Ask = %+v, %v", c.rule, ans, err)
			}
			time.Sleep(time.Minute) // what is late arrives
			if info, err := f.Store.Inspect(t.Context(), "a"); err != nil || len(info.Holders) > 0 != c.held {
				t.Errorf("%+v: the store has %+v, %v", c.rule, info, err)
			}
		})
	}
}

// TestFaultyCut shows that nothing passes between Cut and Heal.
func TestFaultyCut(t *testing.T) {
	f := NewFaulty(new(memlock.Store).Participant())
	var events []driver.EventKind
	f.Listen(func(e driver.Event) { events = append(events, e.Kind) })
	if _, err := f.Inspect(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	f.Cut()
	if _, err := f.Inspect(t.Context(), "a"); err == nil {
		t.Error("Inspect after Cut succeeds")
	}
	f.Heal()
	if _, err := f.Inspect(t.Context(), "a"); err != nil || len(events) != 1 || events[0] != driver.Missed {
		t.Errorf("Inspect after Heal = %v; events %v, want that some were missed", err, events)
	}
}
