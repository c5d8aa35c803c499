// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Observer learns what happens to a client's leases, for metrics and traces. A nil
// function is not called. A goroutine of their own calls the functions one after the
// other, in the order of the events and soon after them: a function that blocks delays
// only the calls after it. A Released or a Lost follows every Acquired.
type Observer struct {
	// Acquired: a lease was granted. The call had waited for Event.Waited.
	Acquired func(Event)
	// Waited: a call of Acquire has ended without a lease, because of Event.Err. It had
	// waited for Event.Waited.
	Waited func(Event)
	// Renewed: the store confirmed the lease anew; the request took Event.Waited. A
	// suspect lease is held again.
	Renewed func(Event)
	// Suspect: a renewal failed or is overdue; Event.Err says which.
	Suspect func(Event)
	// Lost: the lease ended although its holder did not release it; Event.Err is
	// ErrLost.
	Lost func(Event)
	// Released: the lease was given back. Event.Err is not nil if the store did not
	// answer; the client repeats the request in the background then.
	Released func(Event)
	// Broken: this client broke the lease Event.Lease of somebody else.
	Broken func(Event)
	// Stepped: the clock of Event.Server, by which the store ends leases, was moved by
	// Event.Step. Leases that the store must have ended too early are lost; see Lost.
	Stepped func(Event)
	// Closed: Event.Server grants nothing for Event.Left, because it may have
	// forgotten leases that last until then. Renewals go on.
	Closed func(Event)
	// Silent: Event.Server has not answered for Event.Waited, and leases cannot be
	// renewed there. The Observer learns of it soon after it has begun, and each minute
	// while it lasts.
	Silent func(Event)
}

// Event is one thing that happened to a lease, or, for Stepped, Closed and Silent, to the store.
type Event struct {
	Name   string
	Lease  string        // the lease's id; empty if there is none
	Token  Token         // 0 if there is none
	Waited time.Duration // how long a request took
	Held   time.Duration // how long the lease was held, once it has ended
	Err    error

	Server string        // of Stepped, Closed and Silent; for people
	Step   time.Duration // of Stepped; negative if the clock was set back
	Left   time.Duration // of Closed
}

// reporter calls the observer and the log, in order, in a goroutine that exists while
// there is something to report. So even if they block or call back, every lease ends in
// time.
type reporter struct {
	Observer
	log *slog.Logger // may be nil

	mu      sync.Mutex
	queue   []func()
	telling bool
}

func (r *reporter) tell(f func(Event), e Event, warning string, args ...any) {
	if f == nil && (r.log == nil || warning == "") {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, func() {
		if f != nil {
			f(e)
		}
		if r.log != nil && warning != "" {
			r.log.Warn("pawl: "+warning, args...)
		}
	})
	if !r.telling {
		r.telling = true
		go r.work()
	}
}

func (r *reporter) work() {
	for {
		r.mu.Lock()
		queue := r.queue
		r.queue = nil
		r.telling = len(queue) > 0
		r.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, f := range queue {
			f()
		}
	}
}

func (l *Lease) event() Event { return Event{Name: l.grant.name, Lease: l.grant.id, Token: l.token} }

func (r *reporter) acquired(l *Lease, waited time.Duration) {
	e := l.event()
	e.Waited = waited
	r.tell(r.Acquired, e, "")
}

func (r *reporter) waited(name string, waited time.Duration, err error) {
	r.tell(r.Waited, Event{Name: name, Waited: waited, Err: err}, "")
}

func (r *reporter) renewed(l *Lease, waited time.Duration) {
	e := l.event()
	e.Waited = waited
	r.tell(r.Renewed, e, "")
}

func (r *reporter) suspect(l *Lease, err error, left time.Duration) {
	e := l.event()
	e.Err = err
	r.tell(r.Suspect, e, "lease is suspect", "name", l.grant.name, "lease", l.grant.id, "token", l.token, "left", left, "error", err)
}

func (r *reporter) lost(l *Lease, err error) {
	e := l.event()
	e.Held, e.Err = driver.Now().Sub(l.began), err
	r.tell(r.Lost, e, "lease is lost", "name", l.grant.name, "lease", l.grant.id, "token", l.token, "error", err)
}

func (r *reporter) released(l *Lease, err error) {
	if r.Released == nil {
		return // without a look at the clock
	}
	e := l.event()
	e.Held, e.Err = driver.Now().Sub(l.began), err
	r.tell(r.Released, e, "")
}

func (r *reporter) broken(name, lease, why string) {
	r.tell(r.Broken, Event{Name: name, Lease: lease}, "broke a lease", "name", name, "lease", lease, "why", why)
}

func (r *reporter) news(n driver.News) {
	e := Event{Server: n.Server, Step: n.Step, Left: n.Closed}
	if n.Step != 0 {
		r.tell(r.Stepped, e, "a store's clock was set: forward, it ends leases early; back, late",
			"forward", n.Step.Round(time.Millisecond), "server", n.Server)
	}
	if n.Silent > 0 {
		e.Waited = n.Silent
		r.tell(r.Silent, e, "the store does not answer", "since", n.Silent.Round(time.Millisecond), "server", n.Server)
	}
	if n.Closed > 0 {
		r.tell(r.Closed, e, "the store has restarted, has lost its data or is another one: no new leases until those that it may have forgotten have ended",
			"left", n.Closed.Round(time.Millisecond), "server", n.Server)
	}
}

func (r *reporter) deposed(l *Lease, err error) {
	r.tell(nil, Event{}, "the leader has stopped after its lease was lost", "name", l.grant.name, "lease", l.grant.id, "token", l.token, "error", err)
}

func (r *reporter) notGivenBack(err error) {
	r.tell(nil, Event{}, "a lease could not be given back", "error", err)
}
