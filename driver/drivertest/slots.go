// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"

	"github.com/pawl-go/pawl/driver"
)

var slotsTests = []Test{
	{Name: "slots-are-held-by-as-many-as-there-are", Needs: []string{"Slots"}, run: slotsTogether},
	{Name: "one-slot-is-held-by-one", Needs: []string{"Slots"}, run: oneSlot},
	{Name: "slots-of-another-number-are-refused", Needs: []string{"Slots"}, run: slotsOther},
	{Name: "slots-and-exclusive-keep-each-other-out", Needs: []string{"Slots"}, run: slotsExclusive},
	{Name: "slots-and-shared-keep-each-other-out", Needs: []string{"Slots", "Shared"}, run: slotsShared},
	{Name: "second-release-of-a-slot-spares-the-others", Needs: []string{"Slots"}, run: slotSecondRelease},
	{Name: "repeated-attempt-of-a-slot-takes-one", Needs: []string{"Slots"}, run: slotRepeated},
	{Name: "token-grows-with-every-slot", Needs: []string{"Slots", "Fencing"}, run: slotToken},
	{Name: "expiry-of-one-slot-spares-the-others", Needs: []string{"Slots", "Expiry"},
		run: func(e *env) { e.oneOfMany(e.threeSlots, e.expireOne) }},
	{Name: "break-of-one-slot-spares-the-others", Needs: []string{"Slots", "Inspector"},
		run: func(e *env) { e.oneOfMany(e.threeSlots, e.breakOne) }},
	{Name: "crash-of-one-slot-spares-the-others", Needs: []string{"Slots", "Crash"},
		run: func(e *env) { e.oneOfMany(e.threeSlots, e.crashOne) }},
	{Name: "inspect-describes-slots", Needs: []string{"Slots", "Inspector"}, run: inspectSlots},

	{Name: "freed-slot-goes-to-a-waiter", Needs: []string{"Slots", "Queuer"}, run: freedSlot},
	{Name: "slots-are-given-in-order", Needs: []string{"Slots", "Queuer", "FIFO"}, run: slotsInOrder},
	{Name: "new-slots-do-not-overtake-who-waits", Needs: []string{"Slots", "Queuer", "FIFO"}, run: noSlotOvertakes},
	{Name: "waiter-wakes-when-a-slot-expires", Needs: []string{"Slots", "Queuer", "Expiry"}, run: slotExpires},
	{Name: "waiter-wakes-when-a-holder-of-a-slot-crashes", Needs: []string{"Slots", "Queuer", "Crash"}, run: slotCrashes},
	{Name: "waiter-wakes-on-break-of-a-slot", Needs: []string{"Slots", "Queuer", "Inspector"}, run: slotBroken},
}

func (e *env) threeSlots(name string) *driver.Request { return e.slot(name, 3) }

func slotsTogether(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	for _, n := range []int{2, 5} {
		var grants []driver.Grant
		for i := range n {
			grants = append(grants, e.tryReq([]driver.Driver{a, b}[i%2], e.slot(name, n)))
		}
		e.refused(a, e.slot(name, n))
		e.refused(b, e.slot(name, n))
		e.release(grants[1])
		grants[1] = e.tryReq(a, e.slot(name, n))
		e.refused(b, e.slot(name, n))
		for _, g := range grants {
			if a.Guarantees().Expiry {
				e.renew(g, e.long())
			}
			e.release(g)
		}
	}
	e.free(a, name)
}

func oneSlot(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	g := e.tryReq(a, e.slot(name, 1))
	e.refused(a, e.slot(name, 1))
	e.refused(b, e.slot(name, 1))
	e.release(g)
	e.release(e.tryReq(b, e.slot(name, 1)))
}

func slotsOther(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	g := e.tryReq(a, e.slot(name, 3))
	e.otherSlots(b, e.slot(name, 2), 3)
	e.otherSlots(a, e.slot(name, 4), 3)
	other := e.tryReq(b, e.slot(name, 3))
	e.release(g)
	e.otherSlots(a, e.slot(name, 1), 3)
	e.release(other)
	g = e.tryReq(a, e.slot(name, 2)) // nobody holds slots of another number now
	e.otherSlots(b, e.slot(name, 3), 2)
	e.release(g)
	e.free(b, name)
}

func slotsExclusive(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	first, second := e.tryReq(a, e.slot(name, 3)), e.tryReq(b, e.slot(name, 3))
	e.held(a, name)
	e.release(first)
	e.held(a, name)
	e.release(second)
	g := e.try(a, name)
	e.refused(b, e.slot(name, 3))
	e.release(g)
	e.release(e.tryReq(b, e.slot(name, 3)))
}

func slotsShared(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	g := e.tryReq(a, e.slot(name, 3))
	e.refused(b, e.reader(name))
	e.release(g)
	g = e.tryReq(a, e.reader(name))
	e.refused(b, e.slot(name, 3))
	e.release(g)
	e.free(b, name)
}

func slotSecondRelease(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	old := e.tryReq(a, e.slot(name, 2))
	kept := e.tryReq(b, e.slot(name, 2))
	e.release(old)
	next := e.tryReq(b, e.slot(name, 2))
	if err := old.Release(e.ctx); err != nil {
		e.ended("second Release of a slot", err)
	}
	e.refused(a, e.slot(name, 2))
	e.release(kept)
	e.release(next)
	e.free(a, name)
}

func slotRepeated(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	req := e.slot(name, 3)
	g := e.tryReq(a, req)
	again, err := a.TryAcquire(e.ctx, req)
	switch {
	case err == nil && again != nil:
		g = again
	case !errors.Is(err, driver.ErrHeld):
		e.Fatalf("repeated TryAcquire = %s, %v; want a grant or ErrHeld", show(again), err)
	}
	second, third := e.tryReq(b, e.slot(name, 3)), e.tryReq(b, e.slot(name, 3))
	e.refused(b, e.slot(name, 3))
	e.release(second)
	e.release(third)
	e.release(g)
	e.free(b, name)
}

func slotToken(e *env) {
	d, name := e.open(), e.name("deploy")
	last := uint64(0)
	var grants []driver.Grant
	for i := range 8 {
		if len(grants) == 3 {
			e.release(grants[i%3])
			grants = append(grants[:i%3:i%3], grants[i%3+1:]...)
		}
		g := e.tryReq(d, e.slot(name, 3))
		if g.Token() <= last {
			e.Fatalf("slot %d has token %d after %d; want a greater one", i, g.Token(), last)
		}
		last = g.Token()
		grants = append(grants, g)
	}
	for _, g := range grants {
		e.release(g)
	}
}

func inspectSlots(e *env) {
	a, b, name := e.open(), e.open(), e.name("deploy")
	first, second := e.slot(name, 3), e.slot(name, 3)
	grants := map[string]driver.Grant{first.Lease: e.tryReq(a, first), second.Lease: e.tryReq(b, second)}
	info := e.inspect(b, name)
	if len(info.Holders) != 2 {
		e.Errorf("Inspect shows %d holders; want two", len(info.Holders))
	}
	for _, h := range info.Holders {
		g := grants[h.Lease]
		if g == nil || h.Shared || h.Slots != 3 || h.Token != driver.Token(g.Token()) || h.Why != "conformance" {
			e.Errorf("Inspect shows the holder %+v; want one of the two, with three slots", h)
		}
	}
	for _, g := range grants {
		e.release(g)
	}
	if h := e.inspect(b, name).Holders; len(h) != 0 {
		e.Errorf("Inspect shows the holders %+v after all were released; want none", h)
	}
}

func freedSlot(e *env) {
	name := e.name("deploy")
	first, second := e.tryReq(e.open(), e.slot(name, 2)), e.tryReq(e.open(), e.slot(name, 2))
	w := e.wait(e.open(), e.slot(name, 2))
	w.waits()
	e.release(second)
	e.release(w.granted(e.h.Slack))
	e.release(first)
	e.free(e.open(), name)
}

func slotsInOrder(e *env) {
	name := e.name("deploy")
	first, second := e.tryReq(e.open(), e.slot(name, 2)), e.tryReq(e.open(), e.slot(name, 2))
	ws := e.waiting(e.slot(name, 2), e.slot(name, 2), e.slot(name, 2), e.request(name), e.slot(name, 2), e.slot(name, 2))
	e.release(second)
	g0 := ws[0].granted(e.h.Slack)
	e.pause()
	ws[1].waits()
	e.release(first)
	g1 := ws[1].granted(e.h.Slack)
	e.pause()
	ws[2].waits()
	e.release(g0)
	g2 := ws[2].granted(e.h.Slack)
	// One slot is free now for a while, but an exclusive waiter comes first.
	e.grantedInSteps([]driver.Grant{g1, g2}, ws[3:4], ws[4:])
	e.free(e.open(), name)
}

func noSlotOvertakes(e *env) {
	name := e.name("deploy")
	a := e.open()
	g := e.tryReq(a, e.slot(name, 3))
	w := e.wait(e.open(), e.request(name))
	e.refused(a, e.slot(name, 3))
	later := e.wait(e.open(), e.slot(name, 3))
	e.grantedInSteps([]driver.Grant{g}, []*call{w}, []*call{later})
	e.free(a, name)
}

func slotExpires(e *env) {
	name := e.name("deploy")
	kept := e.tryReq(e.open(), e.slot(name, 2))
	g := e.tryReq(e.open(), e.brief(e.slot(name, 2)))
	w := e.wait(e.open(), e.slot(name, 2))
	e.wakes(w, g.Since().Add(e.h.TTL))
	e.release(kept)
	e.free(e.open(), name)
}

func slotCrashes(e *env) {
	name, dead := e.name("deploy"), e.open()
	kept := e.tryReq(e.open(), e.slot(name, 2))
	g := e.tryReq(dead, e.brief(e.slot(name, 2)))
	w := e.wait(e.open(), e.slot(name, 2))
	w.waitsFor(g.Token())
	e.release(w.granted(e.crash(dead)))
	e.release(kept)
	e.free(e.open(), name)
}

func slotBroken(e *env) {
	name := e.name("deploy")
	kept := e.tryReq(e.open(), e.slot(name, 2))
	req := e.slot(name, 2)
	g := e.tryReq(e.open(), req)
	e.letGo(g)
	w := e.wait(e.open(), e.slot(name, 2))
	if err := e.breakLease(e.open(), name, req.Lease); err != nil {
		e.Fatalf("Break of a slot = %v; want nil", err)
	}
	e.release(w.granted(e.h.Slack))
	e.release(kept)
	e.free(e.open(), name)
}
