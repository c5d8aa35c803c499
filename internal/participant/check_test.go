// SPDX-License-Identifier: Apache-2.0

package participant_test

import (
	"fmt"
	"slices"
	"time"
)

const (
	watchEvery = 100 * time.Millisecond
	ownerless  = 500 * time.Millisecond // for how long a lease that nobody has may keep others out
	idleFor    = 3 * time.Second        // for how long a name may be free while somebody waits for it
)

// granted checks a lease that a client has just got.
func (w *world) granted(t *trusted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("%s has token %d", t.why, t.Token())
	w.trusted = append(w.trusted, t)
	w.checkTrust()
	if t.Err() != nil {
		return
	}
	for _, other := range w.trusted {
		if other != t && other.op.Name == t.op.Name && other.Token() == t.Token() {
			w.fail("%s and %s have the same token %d", t.why, other.why, t.Token())
		}
	}
	if last := w.tokens[t.op.Name]; !t.op.Shared && t.op.Slots == 0 && t.Token() <= last && !w.plan.stepsClock() && w.broken[t.why] == 0 {
		w.fail("%s has token %d, after %d", t.why, t.Token(), last)
	}
	w.tokens[t.op.Name] = max(w.tokens[t.op.Name], t.Token())
}

// checkTrust checks that the leases that clients trust may be held together, and that the service has
// each. The caller holds mu.
func (w *world) checkTrust() {
	for i, t := range w.trusted {
		if t.Err() != nil {
			continue
		}
		for _, other := range w.trusted[:i] {
			if other.Err() == nil && w.broken[t.why] == 0 && w.broken[other.why] == 0 && other.op.Name == t.op.Name && !together(t.op, other.op) {
				w.fail("%s and %s trust a lease on %s at the same time", other.why, t.why, t.Name())
			}
		}
		if told := w.toldLost[t.ID()]; told > w.grants[t.ID()] && w.now() > told { // in the next instant
			w.fail("%s trusts a lease of whose end its client has heard", t.why)
		}
		if w.broken[t.why] != 0 || w.plan.stepsClock() {
			continue
		}
		if sn := w.service.names[t.Name()]; sn != nil && w.service.now() >= w.service.closed {
			if !slices.ContainsFunc(sn.holders, func(h *serviceLease) bool { return h.client == t.client && h.until > w.service.now() }) {
				w.fail("%s trusts a lease on %s that the service has ended", t.why, t.Name())
			}
		}
	}
}

func together(a, b op) bool {
	return a.Shared && b.Shared || a.Slots > 0 && a.Slots == b.Slots
}

func (p *plan) stepsClock() bool {
	return slices.ContainsFunc(p.Faults, func(f fault) bool { return f.What == "back" || f.What == "empty" })
}

// watch looks at the world now and then until stop is closed.
func (w *world) watch(stop <-chan struct{}) {
	// What was asked for in the faults has an answer, or none.
	end := w.begin.Add(w.lastFault() + w.plan.TTL + requestTimeout)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for hung := 0; ; hung++ {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		w.mu.Lock()
		w.checkTrust()
		w.checkSilence()
		if time.Now().After(end) {
			w.checkIdle()
		}
		w.mu.Unlock()
		if hung == int(10*time.Minute/watchEvery) {
			panic("a call does not return") // the stacks say which
		}
	}
}

// checkIdle checks that a client that waits for a name gets it soon if nobody uses it. The caller holds mu.
func (w *world) checkIdle() {
	trips := 4 * w.plan.Far
	for name, sn := range w.service.names {
		w.service.settle(sn)
		var waits *call
		for _, c := range w.waiting {
			if c.name == name {
				waits = c
			}
		}
		used := slices.ContainsFunc(sn.holders, func(h *serviceLease) bool { return !h.claim })
		w.lasts(name, idleFor+trips, waits != nil && !used && w.service.now() >= w.service.closed, "%s is free, and somebody waits for it", name)
		for _, h := range sn.holders {
			w.lasts(h.req.Lease, ownerless+trips, waits != nil && !w.uses(h.client, name) && !(h.claim && w.plan.Deaf), "the lease of %s, which nobody has, keeps others from %s", h.req.Why, name)
		}
		for _, q := range sn.queue {
			w.lasts(q.req.Lease, ownerless+trips, !w.owned[q.req.Why] && w.now() > w.lastFault()+goneAfter+2*time.Second, "%s has a place for %s, which has gone", name, q.req.Why)
		}
	}
}

// uses reports whether a client has a lease on a name, wants one, or has to keep one for its MinHold. The caller
// holds mu.
func (w *world) uses(client int, name string) bool {
	for _, t := range w.trusted {
		if t.client == client && t.Name() == name {
			return true
		}
	}
	for why, c := range w.waiting {
		if c.client == client && c.name == name && w.now()-max(c.began, w.answered[why]) < time.Second {
			return true
		}
	}
	return slices.ContainsFunc(w.plan.Scripts, func(s script) bool {
		return s.Client == client && slices.ContainsFunc(s.Ops, func(o op) bool { return o.MinHold > 0 && fmt.Sprint("name", o.Name) == name })
	})
}

// lasts fails if something has been so at each look for longer than d.
func (w *world) lasts(what string, d time.Duration, so bool, format string, args ...any) {
	since, ok := w.idle[what]
	switch {
	case !so:
		delete(w.idle, what)
	case !ok:
		w.idle[what] = w.now()
	case w.now()-since > d:
		w.fail("for %v "+format, append([]any{w.now() - since}, args...)...)
		delete(w.idle, what)
	}
}

// checkSilence checks that no call waits for much longer than a TTL while the store does not answer. The caller
// holds mu.
func (w *world) checkSilence() {
	for why, c := range w.waiting {
		if since := w.silent[c.client]; since != 0 && w.now()-max(since, c.began) > 3*(w.plan.TTL+requestTimeout)+time.Second { // behind others of its client
			w.fail("%s still waits, after a silence of %v", why, w.now()-max(since, c.began))
		}
	}
}

// leftovers checks that soon after all clients were closed the service has nothing of them, if nothing was wrong
// meanwhile, and that the clients know of nothing.
func (w *world) leftovers() {
	w.mu.Lock()
	calm := w.now() > w.lastFault()+w.plan.TTL+2*requestTimeout
	w.mu.Unlock()
	time.Sleep(time.Second + 8*w.plan.Far)
	w.mu.Lock()
	if left := w.service.left(); left != "" && calm && !w.plan.hasMinHold() { // Close leaves those to the store
		w.fail("left at the service: %s", left)
	}
	for lease, doubted := range w.doubted {
		if doubted && calm {
			w.fail("%s: a request had no answer, and nobody has undone it", w.whys[lease])
		}
	}
	for i, half := range w.halves {
		if n := half.Known(); n > 0 && !w.plan.hasMinHold() {
			w.fail("client %d still knows %d leases", i, n)
		}
	}
	w.over = true
	for _, wi := range w.wires {
		if wi.reconnect != nil {
			wi.reconnect.Stop()
		}
	}
	w.mu.Unlock()
	time.Sleep(time.Minute) // what is under way ends before the bubble does
}

// lastFault returns when the last fault has ended.
func (w *world) lastFault() (end time.Duration) {
	for _, f := range w.plan.Faults {
		end = max(end, f.At+f.For)
	}
	return end
}

func (p *plan) hasMinHold() bool {
	return slices.ContainsFunc(p.Scripts, func(s script) bool {
		return slices.ContainsFunc(s.Ops, func(o op) bool { return o.MinHold > 0 })
	})
}
