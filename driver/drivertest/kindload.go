// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var kindLoadTests = []Test{
	{Name: "readers-and-writers-never-overlap-under-load", Needs: []string{"Shared"},
		run: func(e *env) { e.hammerKinds(hammerOnce, e.request, e.reader, e.reader) }},
	{Name: "readers-and-writers-never-overlap-when-waiting", Needs: []string{"Shared", "Queuer"},
		run: func(e *env) { e.hammerKinds(hammerWaiting, e.request, e.reader, e.reader) }},
	{Name: "readers-and-writers-never-overlap-when-waiters-give-up", Needs: []string{"Shared", "Queuer"},
		run: func(e *env) { e.hammerKinds(hammerGivingUp, e.request, e.reader, e.reader) }},
	{Name: "slots-are-never-exceeded-under-load", Needs: []string{"Slots"},
		run: func(e *env) { e.hammerKinds(hammerOnce, e.request, e.threeSlots, e.threeSlots, e.threeSlots) }},
	{Name: "slots-are-never-exceeded-when-waiting", Needs: []string{"Slots", "Queuer"},
		run: func(e *env) { e.hammerKinds(hammerWaiting, e.request, e.threeSlots, e.threeSlots, e.threeSlots) }},
	{Name: "slots-are-never-exceeded-when-waiters-give-up", Needs: []string{"Slots", "Queuer"},
		run: func(e *env) { e.hammerKinds(hammerGivingUp, e.request, e.threeSlots, e.threeSlots, e.threeSlots) }},
}

// crowd finds leases on one name that must not be held together, and tokens that do not
// grow.
type crowd struct {
	e      *env
	mu     sync.Mutex
	inside []*driver.Request
	last   uint64 // the largest token so far
	tokens map[uint64]bool
	grants int
}

// fit reports whether all of reqs may be held together.
func fit(reqs []*driver.Request) bool {
	for _, r := range reqs {
		first := reqs[0]
		if len(reqs) > 1 && (r.Shared != first.Shared || r.Slots != first.Slots ||
			!r.Shared && r.Slots < len(reqs)) {
			return false
		}
	}
	return true
}

func (c *crowd) lastToken() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// hold records that g holds the name for a moment, and releases it. before is the
// largest token when g was asked for.
func (c *crowd) hold(req *driver.Request, g driver.Grant, before uint64) {
	c.enter(req, g.Token(), before)
	time.Sleep(rand.N(2 * time.Millisecond))
	c.mu.Lock()
	for i, r := range c.inside {
		if r == req {
			c.inside = append(c.inside[:i], c.inside[i+1:]...)
			break
		}
	}
	c.mu.Unlock()
	if err := g.Release(c.e.ctx); err != nil {
		c.e.Errorf("Release = %v; want nil", err)
	}
}

func (c *crowd) enter(req *driver.Request, token, before uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grants++
	c.inside = append(c.inside, req)
	if !fit(c.inside) {
		s := ""
		for _, r := range c.inside {
			s += " " + kindOf(r)
		}
		c.e.Errorf("these hold the name together:%s", s)
	}
	if token == 0 {
		return
	}
	if token <= before || c.tokens[token] {
		c.e.Errorf("token %d after %d; want a greater one, and each only once", token, before)
	}
	c.tokens[token] = true
	c.last = max(c.last, token)
}

// hammerKinds has goroutines of several participants take two names again and
// again, each time for a lease of a random kind.
func (e *env) hammerKinds(acquire blow, kinds ...func(string) *driver.Request) {
	e.Helper()
	var crowds [2]*crowd
	for i := range crowds {
		crowds[i] = &crowd{e: e, tokens: make(map[uint64]bool)}
	}
	var all sync.WaitGroup
	for range 3 {
		d := e.open()
		for range hammers / 3 {
			all.Go(func() {
				for range blows {
					i := rand.IntN(len(crowds))
					req := kinds[rand.IntN(len(kinds))](e.name(fmt.Sprint("deploy", i)))
					before := crowds[i].lastToken()
					g, err := acquire(e, d, req)
					if err != nil {
						e.Errorf("acquire = %v", err)
						return
					}
					if g != nil {
						crowds[i].hold(req, g, before)
					}
				}
			})
		}
	}
	all.Wait()
	if crowds[0].grants+crowds[1].grants == 0 {
		e.Error("nobody ever got the name")
	}
	for i := range crowds {
		e.free(e.open(), e.name(fmt.Sprint("deploy", i)))
	}
}
