// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// party is a participant, and what it has heard.
type party struct {
	driver.Store
	e *env

	mu      sync.Mutex
	heard   []driver.Event
	more    chan struct{}  // closed with the next event
	handles map[string]any // by lease
}

// open returns a new participant, which is closed when the check ends.
func (e *env) open() *party {
	e.Helper()
	p := &party{Store: e.service.Open(e.TB), e: e, more: make(chan struct{}), handles: make(map[string]any)}
	p.Listen(func(ev driver.Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.handle(ev.Lease, ev.Grant.Handle)
		p.heard = append(p.heard, ev)
		if l := ev.Loss; ev.Kind == driver.Lost && l != nil && l.Reason == driver.Broken && !p.Caps().Expiry {
			go p.letGo(ev) // as a client does: such a store cannot take the lease from it
		}
		close(p.more)
		p.more = make(chan struct{})
	})
	e.Cleanup(func() { p.Close() })
	return p
}

// letGo ends a lease that somebody wants to break.
func (p *party) letGo(ev driver.Event) {
	_, _ = p.End(p.e.ctx, p.ref(&driver.Request{Name: ev.Name, Lease: ev.Lease}), driver.End{}) // Break says how it went
}

// breaks ends a lease of another participant.
func (p *party) breaks(name, lease string, by *driver.Holder, why string) error {
	ctx, cancel := context.WithTimeout(p.e.ctx, p.e.h.soon)
	defer cancel()
	return p.Break(ctx, name, lease, by, why)
}

// mustBreak ends a lease of another participant that is there.
func (p *party) mustBreak(r *driver.Request, by *driver.Holder, why string) {
	p.e.Helper()
	if err := p.breaks(r.Name, r.Lease, by, why); err != nil {
		p.e.Fatalf("Break = %v; want nil", err)
	}
}

// handle keeps the handle of a lease. The caller holds mu.
func (p *party) handle(lease string, h any) {
	if h != nil {
		p.handles[lease] = h
	}
}

// ref returns the lease of r as p knows it.
func (p *party) ref(r *driver.Request) driver.Ref {
	p.mu.Lock()
	defer p.mu.Unlock()
	return driver.Ref{Name: r.Name, Lease: r.Lease, Shared: r.Shared, Slots: r.Slots, Handle: p.handles[r.Lease]}
}

// ask asks as a client does: it repeats what only has to be repeated.
func (p *party) ask(r *driver.Request) (ans driver.Answer, err error) {
	const most = 100
	for range most {
		again := *r
		again.Handle = p.ref(r).Handle
		ans, err = p.Ask(p.e.ctx, &again)
		p.mu.Lock()
		p.handle(r.Lease, ans.Handle)
		p.mu.Unlock()
		if f := driver.FailureOf(err); err == nil || !f.Passing {
			break
		}
		time.Sleep(p.e.h.pause / 10)
	}
	return ans, err
}

// take asks for a name that must be granted. As a client does, it asks again if nobody is shown to be in the
// way: those who were may have gone just then.
func (p *party) take(r *driver.Request) driver.Answer {
	p.e.Helper()
	const most = 6
	for range most {
		ans, err := p.ask(r)
		switch {
		case err != nil:
			p.e.Fatalf("Ask(%.80q) = %v; want that it is granted", r.Name, err)
		case ans.Granted:
			return ans
		case ans.Rank > 0 || len(ans.Holders) > 0 || ans.Closed > 0:
			p.e.Fatalf("Ask(%.80q) = %+v; want that it is granted", r.Name, ans)
		}
	}
	p.e.Fatalf("Ask(%.80q) grants nothing, %d times; want that it is granted", r.Name, most)
	return driver.Answer{}
}

// refused asks for a name that must not be granted.
func (p *party) refused(r *driver.Request) driver.Answer {
	p.e.Helper()
	ans, err := p.ask(r)
	if err != nil || ans.Granted {
		p.e.Fatalf("Ask(%.80q) = granted %v with token %d, %v; want that it is not granted", r.Name, ans.Granted, ans.Token, err)
	}
	return ans
}

// wait puts r into the queue, once events about its name arrive.
func (p *party) wait(r *driver.Request) driver.Answer {
	p.e.Helper()
	p.hear(r.Name)
	r.Queue = true
	return p.refused(r)
}

// hear makes events about a name arrive.
func (p *party) hear(name string) (stop func()) {
	p.e.Helper()
	ready, stop := p.Hear(name)
	stop = sync.OnceFunc(stop)
	p.e.Cleanup(stop)
	select {
	case <-ready:
	case <-time.After(p.e.h.soon):
		p.e.Fatalf("Hear(%.80q) is not ready after %v", name, p.e.h.soon)
	}
	return stop
}

// event returns the next event about r of one of these kinds, if one has come by then. Missed is about many.
func (p *party) event(r *driver.Request, by driver.Instant, kinds ...driver.EventKind) (driver.Event, bool) {
	timer := time.NewTimer(by.Sub(driver.Now()))
	defer timer.Stop()
	for {
		p.mu.Lock()
		i := slices.IndexFunc(p.heard, func(ev driver.Event) bool { return slices.Contains(kinds, ev.Kind) && about(ev, r) })
		if i >= 0 {
			ev := p.heard[i]
			p.heard = slices.Delete(p.heard, i, i+1)
			p.mu.Unlock()
			return ev, true
		}
		more := p.more
		p.mu.Unlock()
		select {
		case <-more:
		case <-timer.C:
			return driver.Event{}, false
		}
	}
}

// about reports whether an event is about the lease of r.
func about(ev driver.Event, r *driver.Request) bool {
	if ev.Kind == driver.Missed {
		return ev.Concerns == nil || ev.Concerns(r.Name)
	}
	return ev.Lease == r.Lease
}

// not checks that no such event about r has come so far.
func (p *party) not(r *driver.Request, kinds ...driver.EventKind) {
	p.e.Helper()
	if ev, ok := p.event(r, driver.Now(), kinds...); ok {
		p.e.Errorf("the event %+v came; want none", ev)
	}
}

// end ends a lease that must be there.
func (p *party) end(r *driver.Request) {
	p.e.Helper()
	if found, err := p.End(p.e.ctx, p.ref(r), driver.End{}); !found || err != nil {
		p.e.Fatalf("End of a lease on %.80q = %v, %v; want that it was there", r.Name, found, err)
	}
}

// leave takes a lease that waits out of the queue.
func (p *party) leave(r *driver.Request) {
	p.e.Helper()
	if _, err := p.End(p.e.ctx, p.ref(r), driver.End{Unsure: true}); err != nil && !lost(err) {
		p.e.Fatalf("End of a waiter for %.80q = %v; want nil", r.Name, err)
	}
}

// gone checks that a lease cannot be ended, as it is not there.
func (p *party) gone(r *driver.Request) {
	p.e.Helper()
	if found, err := p.End(p.e.ctx, p.ref(r), driver.End{}); found || err != nil && !lost(err) {
		p.e.Errorf("End of a lease that has ended = %v, %v; want that it was not there", found, err)
	}
}

// renew renews a lease that must be there.
func (p *party) renew(r *driver.Request, ttl time.Duration) driver.Renewal {
	p.e.Helper()
	sent := driver.Now()
	n, err := p.Renew(p.e.ctx, p.ref(r), ttl)
	if err != nil {
		p.e.Fatalf("Renew = %v; want nil", err)
	}
	p.e.began("Renew", n.Since, sent)
	return n
}

// began checks Since of an answer. Where time is exact only requests take time, so that a store that reads Since
// before the first one reads the time of the call.
func (e *env) began(what string, since, sent driver.Instant) {
	e.Helper()
	switch after, took := since.Sub(sent), driver.Now().Sub(sent); {
	case after < 0 || after > took:
		e.Errorf("%s says that the TTL began %v after the request was sent, which was answered after %v", what, after, took)
	case after > 0 && e.exact():
		e.Errorf("%s read Since %v after the call; want it read before the first request", what, after)
	}
}
