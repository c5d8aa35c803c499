// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A real store runs on a machine that is busy, or stands still for a moment, and that must not
// fail a test. There are three cases.
//
//   - A test waits for something. If its limit has passed, and goroutines or answers were late, it
//     gives up only when the store has answered many requests since (deadline).
//   - A lease has ended because the test came too late for it, which the clock shows. The test
//     begins again with twice the TTL (again).
//   - A lease was lost, or a request given up, because answers, or goroutines, were late, which is
//     measured (pulse). The test begins again with twice the TTL as well (unlessLate, ending).
//
// What speaks of two holders, or of tokens, fails at once. In a bubble nothing is late.

const (
	// patience is for what takes no time, however slow the machine is.
	patience = time.Minute
	// tooSlow is an answer of a store that may not answer other requests in time, as it is.
	tooSlow = time.Second
	// enough requests that the store has answered show that it is not the machine that is late.
	enough = 100
)

// deadline is when to give up waiting.
type deadline struct {
	e     *env
	limit driver.Instant
	left  int // requests that the store has to answer after limit
	store driver.Driver
}

// deadline returns one that is not before d has passed.
func (e *env) deadline(d time.Duration) *deadline {
	return &deadline{e: e, limit: driver.Now().Add(d), left: enough}
}

// over reports whether to give up. On a real store it may ask it for a lease.
func (d *deadline) over() bool {
	now := driver.Now()
	switch {
	case now < d.limit:
		return false
	case !d.e.h.real || now >= d.limit.Add(patience) || d.e.ctx.Err() != nil:
		return true
	}
	if d.answers() {
		d.left--
	}
	return d.left <= 0
}

// answers asks the store for a lease, and measures how long that takes.
func (d *deadline) answers() bool {
	if d.store == nil {
		d.store = d.e.open()
	}
	ctx, cancel := context.WithTimeout(d.e.ctx, patience)
	defer cancel()
	req := d.e.request("deadline-of-" + d.e.prefix)
	req.TTL = d.e.h.TTL
	began := driver.Now()
	g, err := d.store.TryAcquire(ctx, req)
	answered := err == nil && g.Release(ctx) == nil
	d.e.pulse.saw(driver.Now().Sub(began))
	return answered
}

// limit is for a context: d, and on a real store what no machine takes.
func (e *env) limit(d time.Duration) time.Duration {
	if e.h.real {
		return d + patience
	}
	return d
}

// closed reports whether c is closed before d has passed, or on a machine that is late before
// the deadline that is d away.
func (e *env) closed(c <-chan struct{}, d time.Duration) bool {
	if !e.h.real {
		return closed(c, d)
	}
	end := e.deadline(d)
	if closed(c, d/2) {
		return true
	}
	for driver.Now() < end.limit { // find out whether the machine is late, goroutines or the store
		end.answers()
		if closed(c, max(d/100, 10*time.Millisecond)) {
			return true
		}
	}
	for late := e.pulse.late(); late > d/10 && !end.over(); {
		if closed(c, 20*time.Millisecond) {
			return true
		}
	}
	return closed(c, 0)
}

// tooLate is what a test panics with to begin again.
type tooLate struct{ why string }

// again ends this attempt at the test, since the machine was late, and has it begin again with
// twice the TTL, unless that is long already. Only the test's own goroutine may call it.
func (e *env) again(format string, args ...any) {
	e.Helper()
	why := fmt.Sprintf(format, args...)
	if !e.h.real || 2*e.h.TTL > e.h.longest {
		e.Fatal(why)
	}
	panic(tooLate{why})
}

// attempt runs a test, and reports whether it has to begin again.
func (e *env) attempt(run func(*env)) (again bool) {
	t := e.TB.(*ending)
	if e.h.real && 2*e.h.TTL <= e.h.longest {
		t.excuse(func() bool { return e.pulse.late() > e.h.TTL/6 })
	}
	defer func() {
		why := t.excuse(nil)
		switch late := recover().(type) {
		case nil:
		case tooLate:
			why = late.why
		default:
			panic(late)
		}
		if again = why != "" && !e.Failed(); again {
			e.Logf("with a TTL of %v: %s", e.h.TTL, why)
		}
	}()
	run(e)
	return false
}

// slower ends e and returns one for the next attempt, with twice the TTL and the same store.
func (e *env) slower() *env {
	e.end()
	h := *e.h
	h.TTL *= 2
	h.Start = func(testing.TB) Store { return e.store }
	next := newEnv(e.TB.(*ending).TB, &h)
	next.has = e.has
	return next
}

// pulse measures how late a machine is.
type pulse struct {
	mu    sync.Mutex
	worst time.Duration
}

func (p *pulse) saw(late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.worst = max(p.worst, late)
}

func (p *pulse) late() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.worst
}

// beat measures until ctx ends how late a goroutine is that sleeps.
func (p *pulse) beat(ctx context.Context) {
	const often = 10 * time.Millisecond
	for before := driver.Now(); sleep(ctx, often); before = driver.Now() {
		p.saw(driver.Now().Sub(before) - often)
	}
}

// Late measures how late goroutines are until the test ends. The function that it returns is for limits
// that a machine in time keeps: ten times the longest delay so far, as much as some steps of a test and
// of servers may have had on the same machine.
func Late(t testing.TB) func() time.Duration {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	p := new(pulse)
	go p.beat(ctx)
	return func() time.Duration { return 10 * p.late() }
}

// unlessLate begins again if goroutines or answers were so late in this test that a client need
// not have kept a lease of Harness.TTL, nor had an answer in time.
func (e *env) unlessLate(format string, args ...any) {
	e.Helper()
	if late := e.pulse.late(); late > e.h.TTL/6 {
		e.again("this machine was late by %v: %s", late.Round(time.Millisecond), fmt.Sprintf(format, args...))
	}
}
