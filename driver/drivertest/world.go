// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// world is a store in which a history happens: the one under test, or the model.
type world struct {
	e       *env
	store   Store
	expiry  bool
	drivers [historyParticipants]driver.Driver
	crashed []driver.Driver
	made    map[int]*made // by the id of the operation
	token   map[string]uint64
	done    map[string]int // leases that were granted, by their kind, and "downgraded"; nil: not counted
	wrong   []string       // what is wrong without a comparison with the model
}

// made is what an operation has left behind: an attempt, a waiter, a grant.
type made struct {
	who   int
	req   *driver.Request
	call  *call        // waiting, until it is done
	grant driver.Grant // once granted
	over  bool         // released, broken, or its participant is dead
}

func (e *env) newWorld(s Store) *world {
	w := &world{e: e, store: s, made: make(map[int]*made), token: make(map[string]uint64)}
	for i := range w.drivers {
		w.drivers[i] = s.Open(e.TB)
	}
	w.expiry = w.drivers[0].Guarantees().Expiry
	return w
}

// model returns a world in package memlock with the same guarantees as like.
func (e *env) model(like *world) *world {
	s := &memlock.Store{NoExpiry: !like.expiry}
	return e.newWorld(Store{
		Open:  func(testing.TB) driver.Driver { return s.Driver() },
		Crash: func(_ testing.TB, d driver.Driver) { s.Crash(d) },
	})
}

// runHistory runs ops in the store under test and in the model, side by side. It
// returns what happened, and whether they differ or anything is wrong. What leases
// there were is counted in done.
func (e *env) runHistory(ops []operation, done map[string]int) (trace []string, bad bool) {
	// A limit of its own, as all of them together may take longer than one test.
	before := e.ctx
	ctx, cancel := context.WithTimeout(context.Background(), 10*e.long())
	defer func() { cancel(); e.ctx = before }()
	e.ctx = ctx
	real := e.newWorld(e.h.Start(e.TB))
	real.done = done
	model := e.model(real)
	defer real.end()
	defer model.end()
	prefix := e.name("history-" + rand.Text()[:8] + "/")
	for _, op := range ops {
		op.name = prefix + op.name // fresh, since the store may be shared
		want, got := model.do(op), real.do(op)
		if op.do == doSleep {
			time.Sleep(op.d)
		}
		if e.fake() {
			e.pause()
		}
		want, got = want+model.news(), got+real.news()
		line := strings.Replace(op.String(), prefix, "", 1) + ": " + got
		if got != want {
			line += "    <-- the model says: " + want
		}
		trace = append(trace, line)
		// An error that is no outcome is wrong, even if both have it.
		if got != want || real.wrong != nil || strings.Contains(got, "error: ") {
			return append(trace, real.wrong...), true
		}
	}
	return trace, false
}

// end frees what is left.
func (w *world) end() {
	for _, m := range w.made {
		if m.call != nil {
			m.call.cancel()
			<-m.call.done
			m.grant = m.call.grant
		}
		if m.grant != nil && !m.over {
			m.grant.Release(context.WithoutCancel(w.e.ctx))
		}
	}
	// Those that were crashed, too: they would go on dialling, and disturb others when
	// their links' addresses are used again.
	for _, d := range append(w.crashed, w.drivers[:]...) {
		d.Close()
	}
}

// do does op and returns its outcome in words that are the same in all worlds.
func (w *world) do(op operation) string {
	switch op.do {
	case doTry, doWait:
		return w.acquire(op)
	case doInspect:
		return w.inspect(op)
	case doCrash:
		return w.crash(op)
	case doSleep:
		return "slept"
	}
	m := w.made[op.ref]
	switch {
	case m == nil:
		return "-"
	case op.do == doBreak:
		return w.breakLease(op, m)
	case op.do == doCancel:
		return w.cancel(m)
	case m.grant == nil:
		return "-"
	case op.do == doDowngrade:
		return w.downgrade(op, m)
	}
	return w.use(op, m)
}

func (w *world) request(op operation) *driver.Request {
	req := w.e.request(op.name)
	req.TTL, req.Shared, req.Slots = op.d, op.shared, op.slots
	return req
}

func (w *world) acquire(op operation) string {
	m := &made{who: op.who, req: w.request(op)}
	w.made[op.id] = m
	d := w.drivers[op.who]
	if op.do == doWait {
		m.call = w.e.startWait(d, m.req)
		return "asked"
	}
	g, err := d.TryAcquire(w.e.ctx, m.req)
	if err == nil {
		w.got(m, g)
	}
	return outcome(err, "granted")
}

// got notes a grant.
func (w *world) got(m *made, g driver.Grant) {
	m.grant = g
	w.count(kindOf(m.req))
	if last := w.token[m.req.Name]; g.Token() <= last && w.drivers[0].Guarantees().Fencing {
		w.wrong = append(w.wrong, fmt.Sprintf("token %d after %d", g.Token(), last))
	}
	w.token[m.req.Name] = g.Token()
	if n, ok := g.(driver.Notifier); ok && !w.expiry {
		// Where only the holder can let go, it must.
		n.OnLost(func(error) { g.Release(w.e.ctx) })
	}
}

func (w *world) count(what string) {
	if w.done != nil {
		w.done[what]++
	}
}

// use does what needs a grant.
func (w *world) use(op operation, m *made) string {
	over := m.over
	var err error
	done := map[action]string{doRenew: "renewed", doRelease: "released"}[op.do]
	switch op.do {
	case doRenew:
		_, err = m.grant.Renew(w.e.ctx, op.d)
	case doRelease:
		err = m.grant.Release(w.e.ctx)
		m.over = true
	}
	if over && (op.do == doRelease && err == nil || errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrReleased)) {
		return "it is over" // stores need not know how it ended
	}
	return outcome(err, done)
}

// downgrade puts a shared grant in place of that of m.
func (w *world) downgrade(op operation, m *made) string {
	if m.req.Shared || m.req.Slots > 0 {
		return "-"
	}
	op.name, op.shared, op.slots = m.req.Name, true, 0
	n := &made{who: m.who, req: w.request(op)}
	g, err := m.grant.(driver.Downgrader).Downgrade(w.e.ctx, n.req)
	if m.over && (errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrReleased)) {
		return "it is over"
	}
	if err == nil {
		m.over = true
		w.made[op.id] = n
		w.got(n, g)
		w.count("downgraded")
	}
	return outcome(err, "shared")
}

func (w *world) cancel(m *made) string {
	if m.call == nil {
		return "-"
	}
	m.call.cancel()
	return "cancelled"
}

func (w *world) breakLease(op operation, m *made) string {
	err := w.e.breakLease(w.drivers[op.who], op.name, m.req.Lease)
	if err == nil {
		m.over = m.over || !w.expiry
	}
	return outcome(err, "broken")
}

func (w *world) crash(op operation) string {
	w.store.Crash(w.e.TB, w.drivers[op.who])
	for id, m := range w.made {
		if m.who != op.who {
			continue
		}
		if m.call != nil {
			m.call.cancel()
			<-m.call.done
		}
		delete(w.made, id)
	}
	w.crashed = append(w.crashed, w.drivers[op.who])
	w.drivers[op.who] = w.store.Open(w.e.TB)
	return "crashed"
}

func (w *world) inspect(op operation) string {
	info, err := w.drivers[op.who].(driver.Inspector).Inspect(w.e.ctx, op.name)
	if err != nil {
		return outcome(err, "")
	}
	var holders []string
	for _, h := range info.Holders {
		s := "a dead participant"
		for id, m := range w.made {
			if m.req.Lease == h.Lease {
				s = fmt.Sprintf("#%d", id)
			}
		}
		switch {
		case h.Shared:
			s += ", shared"
		case h.Slots > 0:
			s += fmt.Sprintf(", one of %d slots", h.Slots)
		}
		holders = append(holders, s)
	}
	slices.Sort(holders)
	return fmt.Sprintf("held by %q, %d wait", holders, len(info.Waiters))
}

// news returns which waiters have returned since it was called last.
func (w *world) news() string {
	var ids []int
	var granted []*made
	for id, m := range w.made {
		if m.call != nil && closed(m.call.done, 0) {
			ids = append(ids, id)
			if m.call.err == nil {
				granted = append(granted, m)
			}
		}
	}
	slices.SortFunc(granted, func(a, b *made) int { return cmp.Compare(a.call.grant.Token(), b.call.grant.Token()) })
	for _, m := range granted {
		w.got(m, m.call.grant)
	}
	slices.Sort(ids)
	var s string
	for _, id := range ids {
		m := w.made[id]
		s += fmt.Sprintf("; #%d %s", id, outcome(m.call.err, "granted"))
		m.call = nil
	}
	return s
}

// outcome puts err into words, or says done if it is nil.
func outcome(err error, done string) string {
	if slots := (*driver.SlotsError)(nil); errors.As(err, &slots) {
		return fmt.Sprintf("slots are %d", slots.Held)
	}
	for _, known := range []error{driver.ErrHeld, driver.ErrLost, driver.ErrReleased, context.Canceled} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return done
}
