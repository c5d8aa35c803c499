// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var kindChecks = []Check{
	{Name: "readers-share-and-keep-a-writer-out", Needs: []string{"Shared"}, run: readers},
	{Name: "readers-that-follow-each-other-have-their-turn-together", Needs: []string{"Shared", "Queue", "FIFO"}, run: readersTogether},
	{Name: "a-slot-is-one-of-as-many-as-there-are", Needs: []string{"Slots"}, run: slotsOf},
	{Name: "slots-of-another-number-are-refused-for-good", Needs: []string{"Slots"}, run: otherSlots},
	{Name: "a-freed-slot-goes-to-the-first-waiter", Needs: []string{"Slots", "Queue", "FIFO"}, run: freedSlot},
	{Name: "a-reader-that-expires-spares-the-others", Needs: []string{"Shared", "Expiry"}, run: readerExpires},
	{Name: "a-slot-that-expires-spares-the-others", Needs: []string{"Slots", "Expiry"}, run: slotExpires},
	{Name: "leases-of-different-kinds-keep-each-other-out", Needs: []string{"Shared", "Slots"}, run: kindsApart},
}

// together holds n leases of one kind at once, each granted to another participant.
func (e *env) together(n int, kind func() *driver.Request) (ps []*party, rs []*driver.Request) {
	e.Helper()
	var last uint64
	for range n {
		p, r := e.open(), kind()
		ans := p.take(r)
		if again := p.take(r); again.Token != ans.Token { // it is one hold
			e.Errorf("asked again, the lease has token %d after %d", again.Token, ans.Token)
		}
		if p.Caps().Fencing && ans.Token <= last {
			e.Errorf("token %d after %d", ans.Token, last)
		}
		last = ans.Token
		ps, rs = append(ps, p), append(rs, r)
	}
	return ps, rs
}

func readers(e *env) {
	ps, rs := e.together(3, func() *driver.Request { return shared(e.request()) })
	e.held(rs[0])
	for i, p := range ps {
		p.end(rs[i])
		p.gone(rs[i]) // and the others are still there
		if i < len(ps)-1 {
			e.held(rs[i])
		}
	}
	w := e.request()
	ps[0].take(w)
	ps[1].refused(shared(e.request()))
	ps[0].end(w)
	e.free(w)
}

// readersTogether queues two readers, a writer and a reader behind a writer.
func readersTogether(e *env) {
	holder, r := e.open(), e.request()
	holder.take(r)
	var ps []*party
	var ws []*driver.Request
	var as []driver.Answer
	for i := range 4 {
		p, w := e.open(), e.request()
		w.Shared = i != 2
		ps, ws, as = append(ps, p), append(ws, w), append(as, p.wait(w))
	}
	holder.end(r)
	ps[0].turn(ws[0], as[0])
	ps[1].turn(ws[1], as[1])
	ps[2].refused(ws[2])
	ps[3].refused(ws[3]) // it does not overtake the writer
	e.open().refused(shared(e.request()))
	ps[1].end(ws[1])
	ps[2].refused(ws[2])
	ps[0].end(ws[0])
	ps[2].turn(ws[2], as[2])
	ps[3].refused(ws[3])
	ps[2].end(ws[2])
	ps[3].turn(ws[3], as[3])
	ps[3].end(ws[3])
	e.free(r)
}

func slotsOf(e *env) {
	for _, n := range []int{1, 3} {
		kind := func() *driver.Request {
			r := slot(e.request(), n)
			r.Name = e.name(fmt.Sprint("pool", n))
			return r
		}
		ps, rs := e.together(n, kind)
		no := e.open().refused(kind())
		if len(no.Holders) == 0 || no.Holders[0].Slots != n {
			e.Errorf("the holders of %d slots are shown as %+v", n, no.Holders)
		}
		ps[0].end(rs[0])
		ps[0].gone(rs[0])
		r := kind()
		ps[0].take(r)
		ps[0].refused(kind())
		ps[0].end(r)
		for i := 1; i < n; i++ {
			ps[i].end(rs[i])
		}
		e.free(r)
	}
}

func otherSlots(e *env) {
	p, r := e.open(), slot(e.request(), 3)
	p.take(r)
	for _, n := range []int{2, 4} {
		ans, err := e.open().ask(slot(e.request(), n))
		var other *driver.SlotsError
		if ans.Granted || !errors.As(err, &other) || other.Held != 3 || other.Wanted != n {
			e.Errorf("Ask for one of %d slots = granted %v, %v; want a SlotsError, there are 3", n, ans.Granted, err)
		}
		if f := driver.FailureOf(err); !f.Lasting || f.Maybe {
			e.Errorf("the failure is %+v; want that it lasts, and that nothing was done", f)
		}
	}
	p.end(r)
	e.free(r)
}

func freedSlot(e *env) {
	kind := func() *driver.Request { return slot(e.request(), 2) }
	ps, rs := e.together(2, kind)
	a, b, first, second := e.open(), e.open(), kind(), kind()
	one, two := a.wait(first), b.wait(second)
	ps[1].end(rs[1])
	a.turn(first, one)
	b.refused(second)
	ps[0].end(rs[0])
	b.turn(second, two)
	a.end(first)
	b.end(second)
	e.free(first)
}

func readerExpires(e *env) { e.oneExpires(shared) }

func slotExpires(e *env) {
	e.oneExpires(func(r *driver.Request) *driver.Request { return slot(r, 2) })
	// A request for another lease is enough to end the one that is over.
	short, long, next := slot(e.short(), 2), slot(e.request(), 2), slot(e.request(), 2)
	for _, r := range []*driver.Request{short, long, next} {
		r.Name = e.name("unseen")
	}
	p, other := e.open(), e.open()
	e.open().take(short)
	other.take(long)
	e.eventually(e.h.TTL, "the slot comes free", func() (bool, error) {
		other.renew(long, e.h.Long)
		ans, err := p.ask(next)
		return err == nil && ans.Granted, err
	})
}

// oneExpires has one of two leases of a kind expire.
func (e *env) oneExpires(kind func(*driver.Request) *driver.Request) {
	e.Helper()
	p, other, short, long := e.open(), e.open(), kind(e.short()), kind(e.request())
	p.take(short)
	other.take(long)
	e.eventually(e.h.TTL, "one of two leases expires", func() (bool, error) {
		_, err := p.Renew(e.ctx, p.ref(short), time.Microsecond)
		return lost(err), err
	})
	p.gone(short)
	other.renew(long, e.h.Long)
	e.held(long)
	next := kind(e.request())
	p.take(next)
	p.end(next)
	other.end(long)
	e.free(long)
}

func kindsApart(e *env) {
	kinds := []func() *driver.Request{
		e.request,
		func() *driver.Request { return shared(e.request()) },
		func() *driver.Request { return slot(e.request(), 2) },
	}
	p, other := e.open(), e.open()
	for i, kind := range kinds {
		r := kind()
		p.take(r)
		for j, another := range kinds {
			if i != j {
				other.refused(another())
			}
		}
		p.end(r)
	}
}
