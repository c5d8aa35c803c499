// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

var queueChecks = []Check{
	{Name: "a-free-name-is-granted-to-who-would-wait", Needs: []string{"Queue"}, run: needNotWait},
	{Name: "waiters-have-their-turn-in-order", Needs: []string{"Queue", "FIFO"}, run: inOrder},
	{Name: "a-waiter-that-asks-again-keeps-its-place", Needs: []string{"Queue", "FIFO"}, run: keepsPlace},
	{Name: "a-newcomer-does-not-overtake", Needs: []string{"Queue", "FIFO"}, run: newcomer},
	{Name: "a-request-that-is-not-for-the-queue-never-joins", run: neverJoins},
	{Name: "a-waiter-that-was-ended-leaves-the-queue", Needs: []string{"Queue"}, run: leaves},
	{Name: "a-hand-over-begins-a-ttl", Needs: []string{"Queue", "Expiry"}, run: handOverTTL},
	{Name: "a-name-without-a-queue-is-nobodys-to-wait-for", Needs: []string{"no Queue"}, run: noQueue},
}

func needNotWait(e *env) {
	p, r := e.open(), e.request()
	p.hear(r.Name)
	r.Queue = true
	p.take(r)
	e.held(r)
	p.end(r)
	e.free(r)
}

// queue has a participant hold the name, and n others wait for it.
func (e *env) queue(n int) (holder *party, r *driver.Request, ps []*party, ws []*driver.Request, as []driver.Answer) {
	e.Helper()
	holder, r = e.open(), e.request()
	holder.take(r)
	for i := range n {
		p, w := e.open(), e.request()
		ans := p.wait(w)
		if i > 0 && ans.Rank == 0 && p.Caps().FIFO { // the first may have one, too, if only events tell it when to look
			e.Errorf("waiter %d of the queue has rank 0, as the first", i)
		}
		ps, ws, as = append(ps, p), append(ws, w), append(as, ans)
	}
	return holder, r, ps, ws, as
}

func inOrder(e *env) {
	holder, r, ps, ws, as := e.queue(4)
	token := holder.take(r).Token
	for i, p := range ps {
		holder.end(r)
		ans := p.turn(ws[i], as[i])
		if p.Caps().Fencing && ans.Token <= token {
			e.Errorf("waiter %d is granted token %d after %d", i, ans.Token, token)
		}
		if i < len(ps)-1 && !ans.Waited {
			e.Errorf("waiter %d is granted a name for which nobody waits; want that others do", i)
		}
		for j := i + 1; j < len(ps); j++ {
			ps[j].refused(ws[j])
		}
		holder, r, token = p, ws[i], ans.Token
	}
	holder.end(r)
	e.free(r)
}

func keepsPlace(e *env) {
	holder, r, ps, ws, as := e.queue(3)
	for _, i := range []int{0, 2, 1, 0} {
		if as[i] = ps[i].refused(ws[i]); i > 0 && as[i].Rank == 0 {
			e.Errorf("waiter %d that has asked again has rank 0, as the first", i)
		}
	}
	holder.end(r)
	for i, p := range ps {
		p.turn(ws[i], as[i])
		p.end(ws[i]) // all of it
	}
	e.free(r)
}

func newcomer(e *env) {
	holder, r, ps, ws, as := e.queue(1)
	other := e.open()
	other.refused(e.request())
	holder.end(r)
	if ans, err := other.ask(e.request()); err != nil || ans.Granted {
		e.Errorf("Ask beside a waiter = granted %v, %v; want that it does not overtake", ans.Granted, err)
	}
	ps[0].turn(ws[0], as[0])
	ps[0].end(ws[0])
	e.free(r)
}

func neverJoins(e *env) {
	a, b, r, other := e.open(), e.open(), e.request(), e.request()
	a.take(r)
	b.refused(other)
	if a.Caps().Shows {
		if info := e.inspect(r.Name); len(info.Waiters) != 0 {
			e.Errorf("the queue shows %+v; want nobody, the request was not for it", info.Waiters)
		}
	}
	b.gone(other)
	b.refused(other)
	a.end(r)
	e.free(r)
}

func leaves(e *env) {
	n, left := 3, 1
	if !e.open().Caps().FIFO { // which of two that stay is first is not known
		n, left = 2, 0
	}
	holder, r, ps, ws, as := e.queue(n)
	ps[left].leave(ws[left])
	ps[left].gone(ws[left])
	holder.end(r)
	for i := range n {
		if i != left {
			ps[i].turn(ws[i], as[i])
			ps[i].end(ws[i])
		}
	}
	ps[left].not(ws[left], driver.Granted)
	e.free(r)
	if holder.Caps().Shows {
		e.nobody(r.Name)
	}
}

// handOverTTL: the TTL of a lease that was waited for begins when it is granted.
func handOverTTL(e *env) {
	e.soonEnough(func(e *env) (late bool) {
		a, b, r, w := e.open(), e.open(), e.request(), e.short()
		a.take(r)
		ans := b.wait(w)
		time.Sleep(e.h.TTL / 2)
		if again, err := b.ask(w); err == nil && !again.Granted { // as a waiter does, so that its place stays
			ans = again
		}
		sent := driver.Now()
		a.end(r)
		granted := b.turn(w, ans)
		if granted.Since < sent && e.exact() { // else the store may have confirmed the waiter just before
			e.Errorf("the TTL began %v before the name was released", sent.Sub(granted.Since))
		}
		if _, err := b.Renew(e.ctx, b.ref(w), e.h.TTL); err != nil {
			if lateFor(granted.Since, w) {
				return true
			}
			e.Fatalf("Renew = %v; want nil", err)
		}
		e.soonFree(e.open(), w)
		e.notEarly(granted.Since)
		return false
	})
}

func noQueue(e *env) {
	a, b, r, w := e.open(), e.open(), e.request(), e.request()
	a.take(r)
	w.Queue = true
	b.refused(w)
	b.gone(w)
	a.end(r)
	e.free(r)
}
