// SPDX-License-Identifier: Apache-2.0

// Package drivertest has what tests of stores share: a network link that fails on purpose (Link), a store
// whose requests fail (Faulty), and helpers. Package wiretest is the conformance suite, package servers
// starts real servers.
package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Op is a kind of request to a store.
type Op int

const (
	AnyOp Op = iota
	Ask
	Renew
	End
	Inspect // and List
	Break
)

// Effect is what goes wrong with a request.
type Effect int

const (
	// FailBefore: the request is not carried out, and the error says so.
	FailBefore Effect = iota
	// FailAfter: the request is carried out, but the answer is lost.
	FailAfter
	// SlowBefore: the request takes Delay to arrive, and is then carried out even if the caller has given up.
	SlowBefore
	// SlowAfter: the request is carried out at once, and the answer takes Delay.
	SlowAfter
)

// Rule makes requests go wrong. The zero value fails every request before it does anything.
type Rule struct {
	Op     Op            // AnyOp: every kind
	Name   string        // of the lock; empty: every name
	After  int           // how many requests that match are let pass first
	Count  int           // how many requests go wrong then; 0: all
	Effect Effect        // what happens to them
	Delay  time.Duration // for SlowBefore and SlowAfter
}

// Faulty is a store that a bad network lies before. It is safe for concurrent use.
type Faulty struct {
	driver.Store
	flying sync.WaitGroup // requests whose caller has given up

	mu    sync.Mutex                 // guards the fields below
	late  map[string][]chan struct{} // requests for leases whose callers have given up, by lease; closed when they arrive
	rules []*rule
	cut   bool
	tell  func(driver.Event)
}

type rule struct {
	Rule
	seen int // requests that matched
}

// NewFaulty returns a Faulty before s with the given rules. Of several rules that match a request, the first that
// is not used up counts it and decides.
func NewFaulty(s driver.Store, rules ...Rule) *Faulty {
	f := &Faulty{Store: s, late: make(map[string][]chan struct{})}
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

// Clear removes all rules. Requests that are under way stay as they are.
func (f *Faulty) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Cut makes each request fail, and no event arrive, until Heal.
func (f *Faulty) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut = true
}

// Heal ends Cut. It reports that events may have been missed.
func (f *Faulty) Heal() {
	f.mu.Lock()
	f.cut = false
	tell := f.tell
	f.mu.Unlock()
	if tell != nil {
		tell(driver.Event{Kind: driver.Missed})
	}
}

func (f *Faulty) isCut() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cut
}

// Listen implements driver.Store.
func (f *Faulty) Listen(tell func(driver.Event)) {
	f.mu.Lock()
	f.tell = tell
	f.mu.Unlock()
	f.Store.Listen(func(e driver.Event) {
		if !f.isCut() {
			tell(e)
		}
	})
}

// Ask implements driver.Store, as the next methods do.
func (f *Faulty) Ask(ctx context.Context, r *driver.Request) (driver.Answer, error) {
	arrived := make(chan struct{})
	ans, err := through(ctx, f, Ask, r.Name, func(ctx context.Context) (driver.Answer, error) {
		defer close(arrived)
		return f.Store.Ask(ctx, r)
	})
	if err != nil && driver.FailureOf(err).Maybe {
		f.mu.Lock()
		f.late[r.Lease] = append(f.late[r.Lease], arrived)
		f.mu.Unlock()
	}
	return ans, err
}

func (f *Faulty) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	return through(ctx, f, Renew, l.Name, func(ctx context.Context) (driver.Renewal, error) { return f.Store.Renew(ctx, l, ttl) })
}

// End lets requests for the lease arrive first that are on their way: a store knows of those that it has sent.
func (f *Faulty) End(ctx context.Context, l driver.Ref, how driver.End) (bool, error) {
	f.mu.Lock()
	late := f.late[l.Lease]
	delete(f.late, l.Lease)
	f.mu.Unlock()
	for _, arrived := range late {
		<-arrived
	}
	return through(ctx, f, End, l.Name, func(ctx context.Context) (bool, error) { return f.Store.End(ctx, l, how) })
}

func (f *Faulty) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	return through(ctx, f, Inspect, name, func(ctx context.Context) (*driver.Info, error) { return f.Store.Inspect(ctx, name) })
}

func (f *Faulty) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	return through(ctx, f, Inspect, "", func(ctx context.Context) ([]*driver.Info, error) { return f.Store.List(ctx, prefix) })
}

func (f *Faulty) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	_, err := through(ctx, f, Break, name, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, f.Store.Break(ctx, name, lease, by, why)
	})
	return err
}

// Close waits for the requests whose caller has given up.
func (f *Faulty) Close() error {
	f.flying.Wait()
	return f.Store.Close()
}

var (
	errUnsent = errors.New("drivertest: the request was not sent")
	errLost   = errors.New("drivertest: the answer was lost")
)

// through makes one request with its fault. do is the request itself.
func through[A any](ctx context.Context, f *Faulty, op Op, name string, do func(context.Context) (A, error)) (none A, err error) {
	r, cut := f.decide(op, name)
	switch {
	case cut || r != nil && r.Effect == FailBefore:
		return none, &driver.Failure{Err: errUnsent, Silent: true}
	case r == nil:
		return do(ctx)
	case r.Effect == FailAfter:
		_, _ = do(ctx) // the answer is what is lost
		return none, &driver.Failure{Err: errLost, Maybe: true, Silent: true}
	}
	type result struct {
		answer A
		err    error
	}
	done := make(chan result, 1)
	f.flying.Go(func() {
		var res result
		if r.Effect == SlowBefore {
			time.Sleep(r.Delay)
		}
		res.answer, res.err = do(context.WithoutCancel(ctx))
		if r.Effect == SlowAfter {
			time.Sleep(r.Delay)
		}
		done <- res
	})
	select {
	case res := <-done:
		return res.answer, res.err
	case <-ctx.Done():
		return none, &driver.Failure{Err: ctx.Err(), Maybe: true, Silent: true}
	}
}

// decide returns the rule for a request, or nil, and whether it is cut off.
func (f *Faulty) decide(op Op, name string) (*Rule, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
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
