// SPDX-License-Identifier: Apache-2.0

package participant_test

import (
	"slices"
	"time"
)

const (
	watchEvery = 100 * time.Millisecond
	idleFor    = 3 * time.Second // for how long a name may be free while somebody waits for it
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
	end := w.begin.Add(length)
	for _, f := range w.plan.Faults {
		if e := w.begin.Add(f.At + f.For); e.After(end) {
			end = e
		}
	}
	end = end.Add(w.plan.TTL + requestTimeout) // what was asked for in the faults has ended
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
		if time.Now().After(end) {
			w.checkIdle()
		}
		w.mu.Unlock()
		if hung == int(10*time.Minute/watchEvery) {
			panic("a call does not return") // the stacks say which
		}
	}
}

// checkIdle checks that no name is free for long while a client waits for it. The caller holds mu.
func (w *world) checkIdle() {
	for name, sn := range w.service.names {
		w.service.settle(sn)
		used := slices.ContainsFunc(sn.holders, func(h *serviceLease) bool { return !h.claim })
		var waits *call
		for _, c := range w.waiting {
			if c.name == name {
				waits = c
			}
		}
		if used || waits == nil || w.service.now() < w.service.closed {
			delete(w.idle, name)
			continue
		}
		since, ok := w.idle[name]
		if !ok {
			w.idle[name] = w.now()
		} else if w.now()-since > idleFor {
			w.fail("%s was free for %v while client %d waited for it", name, w.now()-since, waits.client)
			delete(w.idle, name)
		}
	}
}

// leftovers checks that one TTL after all clients were closed the service has nothing of them.
func (w *world) leftovers() {
	time.Sleep(w.plan.TTL + goneAfter + time.Second)
	w.mu.Lock()
	left := w.service.left()
	if left != "" {
		w.fail("left at the service: %s", left)
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
