// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Faulty puts faults between a client and a driver, as a bad network would. It
// is safe for concurrent use. Its Driver method returns what to give to the
// client.
type Faulty struct {
	inner  driver.Driver
	pulse  *pulse         // nil unless it is told how long calls take
	flying sync.WaitGroup // requests whose caller has given up

	mu      sync.Mutex // guards the fields below
	rules   []*rule
	calls   map[Op]int
	cut     bool
	waiting map[*context.CancelFunc]struct{} // what Cut interrupts
}

type rule struct {
	Rule
	seen int // calls that matched
}

// NewFaulty returns a Faulty around d with the given rules. Of several rules
// that match a call, the first that is not used up counts it and decides.
func NewFaulty(d driver.Driver, rules ...Rule) *Faulty {
	f := &Faulty{inner: d, calls: make(map[Op]int), waiting: make(map[*context.CancelFunc]struct{})}
	f.Add(rules...)
	return f
}

// Add adds rules.
func (f *Faulty) Add(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rules {
		f.rules = append(f.rules, &rule{Rule: r})
	}
}

// Clear removes all rules. Calls that are under way stay as they are.
func (f *Faulty) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Cut makes every call fail until Heal. Calls that wait in the store's queue end with
// an unknown outcome, and no message about a loss arrives.
func (f *Faulty) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut = true
	for cancel := range f.waiting {
		(*cancel)()
		delete(f.waiting, cancel) // its answer is lost, even if Heal comes before it
	}
}

// Heal ends Cut.
func (f *Faulty) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut = false
}

// Calls returns how many calls of a kind have been made, faults included.
func (f *Faulty) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if op != AnyOp {
		return f.calls[op]
	}
	n := 0
	for _, c := range f.calls {
		n += c
	}
	return n
}

// String returns the plan in Go syntax.
func (f *Faulty) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b strings.Builder
	b.WriteString("[]drivertest.Rule{\n")
	for _, r := range f.rules {
		fmt.Fprintf(&b, "\t%v, // matched %d calls\n", r.Rule, r.seen)
	}
	b.WriteString("}")
	if f.cut {
		b.WriteString(" // and cut off")
	}
	return b.String()
}

// faulty reports whether there is a plan worth printing.
func (f *Faulty) faulty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.rules) > 0 || f.cut
}

// fate is what has become of a call.
type fate int

const (
	unsent   fate = iota // the store will never see it
	unknown              // the store has seen it, or will; the answer is lost
	answered             // the store's answer has come through
)

// call makes one call with its fault. do is the call itself. Of its results
// only the error is seen here, and returned if it is answered.
func (f *Faulty) call(ctx context.Context, op Op, name string, do func(context.Context) error) (fate, error) {
	r, cut := f.decide(op, name)
	switch {
	case cut:
		return unsent, fmt.Errorf("drivertest: cut off: %w", driver.ErrUnavailable)
	case r == nil:
		return f.through(ctx, op, do)
	}
	switch r.Effect {
	case FailBefore:
		return unsent, fmt.Errorf("drivertest: %v fails: %w", op, driver.ErrUnavailable)
	case FailAfter:
		_ = do(ctx) // the answer is what is lost
		return unknown, lostAnswer(op)
	case SlowBefore:
		return f.slowBefore(ctx, r.Delay, do)
	case SlowAfter:
		err := do(ctx)
		if !sleep(ctx, r.Delay) {
			return unknown, ctx.Err()
		}
		return answered, err
	default: // Hang
		<-ctx.Done()
		return unsent, ctx.Err()
	}
}

// decide counts a call and returns the rule for it, or nil, and whether it is
// cut off.
func (f *Faulty) decide(op Op, name string) (*Rule, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[op]++
	for _, r := range f.rules {
		usedUp := r.Count != 0 && r.seen >= r.After+r.Count
		if usedUp || r.Op != AnyOp && r.Op != op || r.Name != "" && r.Name != name {
			continue
		}
		if r.seen++; r.seen > r.After {
			return &r.Rule, f.cut
		}
		break
	}
	return nil, f.cut
}

// through calls do, which Cut interrupts.
func (f *Faulty) through(ctx context.Context, op Op, do func(context.Context) error) (fate, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.mu.Lock()
	f.waiting[&cancel] = struct{}{}
	f.mu.Unlock()
	began := driver.Now()
	err := do(ctx)
	if f.pulse != nil && op != Acquire {
		f.pulse.saw(driver.Now().Sub(began))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, there := f.waiting[&cancel]
	delete(f.waiting, &cancel)
	if f.cut || !there {
		return unknown, lostAnswer(op)
	}
	return answered, err
}

// slowBefore lets the caller go when ctx ends, but the request is on its way,
// and does its work when it arrives.
func (f *Faulty) slowBefore(ctx context.Context, delay time.Duration, do func(context.Context) error) (fate, error) {
	done := make(chan error, 1)
	f.flying.Go(func() {
		time.Sleep(delay)
		done <- do(context.WithoutCancel(ctx))
	})
	select {
	case err := <-done:
		return answered, err
	case <-ctx.Done():
		return unknown, ctx.Err()
	}
}

func (f *Faulty) isCut() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cut
}

func lostAnswer(op Op) error {
	switch op {
	case TryAcquire, Acquire:
		return fmt.Errorf("drivertest: answer to %v lost: %w", op, driver.ErrUncertain)
	}
	return fmt.Errorf("drivertest: answer to %v lost", op)
}

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
