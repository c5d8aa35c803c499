// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/pawl-go/pawl/driver"
)

var setTests = []Test{
	{Name: "set-is-granted-whole-or-not-at-all", Needs: []string{"Sets"}, run: setWhole},
	{Name: "repeated-attempt-for-a-set-is-harmless", Needs: []string{"Sets"}, run: setRepeated},
	{Name: "set-does-not-overtake-who-waits", Needs: []string{"Sets", "Queuer", "FIFO", "Shared"}, run: setOvertakes},
	{Name: "set-of-leases-of-every-kind", Needs: []string{"Sets", "Shared", "Slots"}, run: setKinds},
	{Name: "sets-never-overlap-under-load", Needs: []string{"Sets"}, run: setLoad},
}

// set returns n names that a store can grant in one step. One that spreads names over
// servers by a hash tag in braces finds the same tag in all of them.
func (e *env) set(n int) (names []string) {
	for i := range n {
		names = append(names, e.name("set}"+string(rune('a'+i))))
	}
	return names
}

func requests(ask func(string) *driver.Request, names []string) (reqs []*driver.Request) {
	for _, name := range names {
		reqs = append(reqs, ask(name))
	}
	return reqs
}

func (e *env) takeSet(d driver.Driver, reqs []*driver.Request) []driver.Grant {
	e.Helper()
	grants, err := d.(driver.Sets).TryAcquireAll(e.ctx, reqs)
	if err != nil || len(grants) != len(reqs) {
		e.Fatalf("TryAcquireAll = %v, %v; want %d grants", grants, err, len(reqs))
	}
	return grants
}

func (e *env) refuseSet(d driver.Driver, reqs []*driver.Request) {
	e.Helper()
	if grants, err := d.(driver.Sets).TryAcquireAll(e.ctx, reqs); len(grants) > 0 || !errors.Is(err, driver.ErrHeld) {
		e.Fatalf("TryAcquireAll = %v, %v; want ErrHeld", grants, err)
	}
}

func setWhole(e *env) {
	a, b, names := e.open(), e.open(), e.set(3)
	last := uint64(0)
	for i := range names {
		g := e.try(b, names[i])
		e.refuseSet(a, requests(e.request, names))
		for j := range names {
			if j != i {
				e.free(b, names[j])
			}
		}
		e.release(g)
		grants := e.takeSet(a, requests(e.request, names))
		if grants[1].Token() <= last && a.Guarantees().Fencing {
			e.Errorf("token %d after %d; want a greater one", grants[1].Token(), last)
		}
		last = grants[1].Token()
		for j, g := range grants {
			e.held(b, names[j])
			if a.Guarantees().Expiry {
				e.renew(g, e.long())
			}
			e.release(g)
			e.free(b, names[j])
		}
	}
}

func setRepeated(e *env) {
	a, b, names := e.open(), e.open(), e.set(3)
	reqs := requests(e.request, names)
	reqs[1].Shared = a.Guarantees().Shared
	grants := e.takeSet(a, reqs)
	again, err := a.(driver.Sets).TryAcquireAll(e.ctx, reqs)
	switch {
	case err == nil && len(again) == len(grants):
		grants = again
	case !errors.Is(err, driver.ErrHeld):
		e.Fatalf("repeated TryAcquireAll = %v, %v; want the grants or ErrHeld", again, err)
	}
	for i, g := range grants {
		e.held(b, names[i])
		e.release(g)
		e.free(b, names[i])
	}
}

func setOvertakes(e *env) {
	a, names := e.open(), e.set(3)
	g := e.tryReq(e.open(), e.reader(names[1]))
	w := e.wait(e.open(), e.request(names[1]))
	e.refuseSet(a, requests(e.reader, names))
	e.free(a, names[0])
	e.release(g)
	e.release(w.granted(e.h.Slack))
	for _, g := range e.takeSet(a, requests(e.reader, names)) {
		e.release(g)
	}
}

func setKinds(e *env) {
	a, b, names := e.open(), e.open(), e.set(3)
	ask := func() []*driver.Request {
		return []*driver.Request{e.reader(names[0]), e.slot(names[1], 2), e.reader(names[2])}
	}
	first, second := e.takeSet(a, ask()), e.takeSet(b, ask())
	e.refuseSet(a, ask()) // there are two slots
	e.refuseSet(a, requests(e.request, names))
	reqs := ask()
	reqs[1].Slots = 3
	var slots *driver.SlotsError
	if grants, err := a.(driver.Sets).TryAcquireAll(e.ctx, reqs); !errors.As(err, &slots) || slots.Held != 2 || slots.Wanted != 3 {
		e.Errorf("TryAcquireAll = %v, %v; want a *SlotsError: slots of 2 are held, and 3 were asked for", grants, err)
	}
	for _, g := range slices.Concat(first, second) {
		e.release(g)
	}
	for _, name := range names {
		e.free(b, name)
	}
}

// setLoad has goroutines of several participants take two of three names again and
// again, at once or one for itself.
func setLoad(e *env) {
	names := e.set(3)
	var crowds [3]*crowd
	for i := range crowds {
		crowds[i] = &crowd{e: e, tokens: make(map[uint64]bool)}
	}
	var all sync.WaitGroup
	for range 3 {
		d := e.open()
		for range hammers / 3 {
			all.Go(func() {
				for range blows {
					which := rand.Perm(3)[:1+rand.IntN(2)]
					var reqs []*driver.Request
					var before []uint64
					for _, i := range which {
						reqs = append(reqs, e.request(names[i]))
						before = append(before, crowds[i].lastToken())
					}
					grants, err := d.(driver.Sets).TryAcquireAll(e.ctx, reqs)
					if err != nil && !errors.Is(err, driver.ErrHeld) {
						e.Errorf("TryAcquireAll = %v", err)
						return
					}
					for k, g := range grants {
						crowds[which[k]].hold(reqs[k], g, before[k])
					}
				}
			})
		}
	}
	all.Wait()
	for i, name := range names {
		if crowds[i].grants == 0 {
			e.Error("nobody ever got the name")
		}
		e.free(e.open(), name)
	}
}
