// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var loadChecks = []Check{
	{Name: "holders-never-overlap-under-load", run: load},
}

// room checks who is in at a time, by counters of its own.
type room struct {
	e                       *env
	mu                      sync.Mutex
	writers, readers, slots int
}

// add says that n more leases of the kind of r hold the name, or n fewer.
func (m *room) add(r *driver.Request, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case r.Shared:
		m.readers += n
	case r.Slots > 0:
		m.slots += n
	default:
		m.writers += n
	}
	if m.writers > 1 || m.slots > loadSlots || min(m.readers, m.slots) > 0 || min(m.writers, m.slots+m.readers) > 0 {
		m.e.Errorf("%d exclusive leases, %d readers and %d of %d slots hold the name at once", m.writers, m.readers, m.slots, loadSlots)
	}
}

const loadSlots = 2

// load has several participants take one name again and again, with leases of all kinds. They wait for it or
// not, and some of those that wait leave.
func load(e *env) {
	const many, rounds = 5, 12
	m := &room{e: e}
	grants := make([]int, many)
	var work sync.WaitGroup
	for i := range many {
		p, random := e.open(), rand.New(rand.NewPCG(1, uint64(i)))
		p.hear(e.request().Name)
		work.Go(func() {
			for range rounds {
				r := e.someKind(p.Caps(), random)
				if p.tries(r, random) {
					grants[i]++
					m.add(r, 1)
					time.Sleep(e.h.pause / 20)
					m.add(r, -1)
				}
				if _, err := p.End(e.ctx, p.ref(r), driver.End{Unsure: true}); err != nil {
					e.Errorf("End = %v; want nil", err)
				}
			}
		})
	}
	work.Wait()
	for i, n := range grants {
		if n == 0 && e.open().Caps().FIFO {
			e.Errorf("participant %d was granted the name not once in %d attempts", i, rounds)
		}
	}
	e.free(e.request())
}

// someKind returns a request for a lease of some kind that the store has.
func (e *env) someKind(caps driver.Caps, random *rand.Rand) *driver.Request {
	r := e.request()
	switch k := random.IntN(4); {
	case k == 0 && caps.Shared:
		return shared(r)
	case k == 1 && caps.Slots:
		return slot(r, loadSlots)
	}
	return r
}

// tries asks for a name, and in three of four cases waits for it, sometimes only for a moment.
func (p *party) tries(r *driver.Request, random *rand.Rand) (granted bool) {
	r.Queue = p.Caps().Queue && random.IntN(4) > 0
	patience := p.e.h.soon
	if random.IntN(3) == 0 {
		patience = time.Duration(random.Int64N(int64(p.e.h.pause)))
	}
	for end := driver.Now().Add(patience); ; {
		ans, err := p.ask(r)
		var slots *driver.SlotsError
		switch {
		case err != nil && !errors.As(err, &slots):
			p.e.Errorf("Ask = %v; want an answer", err)
			return false
		case err == nil && ans.Granted:
			return true
		case err != nil, !r.Queue, driver.Now() >= end:
			return false
		}
		p.event(r, min(end, driver.Now().Add(max(p.e.h.pause/2, time.Millisecond))), driver.Granted, driver.Look)
	}
}
