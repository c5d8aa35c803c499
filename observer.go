// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/client"
	"github.com/pawl-go/pawl/internal/line"
	"github.com/pawl-go/pawl/internal/schedule"
)

// Observer has functions that a client calls when something happens to its leases, for metrics
// and traces. A nil function is not called. A goroutine of the client calls them one after the
// other, in the order of the events: a function that blocks delays only the calls after it. After
// each Acquired comes a Released or a Lost.
type Observer struct {
	// Waiting says that a call of Acquire begins, and may have to wait. An Acquired or a Waited
	// with the same Event.Context follows.
	Waiting func(Event)
	// Acquired says that a lease was granted. The call had waited for Event.Waited. A Waiting came
	// before unless Event.Tried is set.
	Acquired func(Event)
	// Waited says that a call of Acquire has ended without a lease, because of Event.Err. It had
	// waited for Event.Waited.
	Waited func(Event)
	// Renewed says that the store has confirmed the lease again; the request took Event.Waited.
	// Event.Left was left of the trust window then, which is Event.TTL less the drift: two thirds
	// of it if nothing had to be repeated. A suspect lease is held again.
	Renewed func(Event)
	// Suspect says that a renewal has failed or is overdue; Event.Err says which. The lease ends in
	// Event.Left unless a renewal succeeds.
	Suspect func(Event)
	// Lost says that the lease has ended without a Release; Event.Err is ErrLost.
	Lost func(Event)
	// Released says that the lease was given back; with MinHold, when that is over. Event.Err is not
	// nil if the store did not answer: the client then repeats the request in the background.
	Released func(Event)
	// Broken says that this client has broken the lease Event.Lease of another client.
	Broken func(Event)
	// Stepped says that the clock of Event.Server, by which the store ends leases, was moved by
	// Event.Step. A Lost follows for leases that the store must have ended too early.
	Stepped func(Event)
	// Closed says that Event.Server grants nothing for Event.Left, because it may have forgotten
	// leases that last until then. Renewals go on.
	Closed func(Event)
	// Silent says that Event.Server has not answered for Event.Waited, so leases cannot be renewed
	// there. Silent is called soon after the silence begins, and each minute while it lasts.
	Silent func(Event)
	// Refused says that the store answers, but refuses requests for leases at present because of
	// Event.Err: it may be out of memory. Calls of Acquire go on waiting. Refused is called after a
	// second of refusals, and each minute while they last.
	Refused func(Event)

	// Trace returns the traceparent of the span in a context, or "". Calls that ask for a lease call
	// Trace and wait for it. They store the traceparent, unless it is longer than 64 characters, in the
	// record of the lease: see Holder.Trace and Event.Behind.
	Trace func(context.Context) string
}

// reporter calls the observer and the log, in order, in a goroutine that exists while
// there is something to report. So every lease ends in time, even if they block or call
// back.
type reporter struct {
	Observer
	log     *slog.Logger // may be nil
	listens bool         // the observer wants the contexts of calls
	slow    sync.Once    // the warning about slow answers has been given
	urged   sync.Map     // the warnings that slog.Default has been given
	calls   *schedule.Workers[func()]
}

func (r *reporter) tell(f func(Event), e Event, warning string, args ...any) {
	if f != nil || r.log != nil && warning != "" {
		r.add(f, e, warning, args)
	}
}

// add is not part of tell, because it moves e to the heap, which costs a program without an observer.
func (r *reporter) add(f func(Event), e Event, warning string, args []any) {
	r.calls.Add(func() {
		if f != nil {
			f(e)
		}
		if r.log != nil && warning != "" {
			r.log.Warn("pawl: "+warning, args...)
		}
	})
}

// JoinObservers returns an Observer that passes each event to all observers, in their order.
// Its Trace returns the first span that one of them knows.
func JoinObservers(observers ...Observer) (all Observer) {
	for _, o := range observers {
		for i, f := range all.events() {
			*f = both(*f, *o.events()[i])
		}
		if first, second := all.Trace, o.Trace; first == nil {
			all.Trace = second
		} else if second != nil {
			all.Trace = func(ctx context.Context) string { return cmp.Or(first(ctx), second(ctx)) }
		}
	}
	return all
}

func (o *Observer) events() []*func(Event) {
	return []*func(Event){
		&o.Waiting, &o.Acquired, &o.Waited, &o.Renewed, &o.Suspect, &o.Lost, &o.Released, &o.Broken, &o.Stepped, &o.Closed, &o.Silent, &o.Refused,
	}
}

func both(first, second func(Event)) func(Event) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(e Event) {
		first(e)
		second(e)
	}
}

func newReporter(o Observer, log *slog.Logger) reporter {
	listens := o.Waiting != nil || o.Acquired != nil || o.Waited != nil || o.Renewed != nil || o.Suspect != nil || o.Lost != nil || o.Released != nil
	return reporter{Observer: o, log: log, listens: listens, calls: schedule.NewWorkers(1, func(call func()) { call() })}
}

func eventOf(l *client.Lease) Event {
	e := event(l.Name(), l.Asked())
	e.Lease, e.Token = l.ID(), l.Token()
	return e
}

func event(name string, a client.Asked) Event {
	return Event{Name: name, Context: a.Context, Shared: a.Kind == line.Shared, Slots: max(0, int(a.Kind)), Tried: !a.Waits}
}

func (r *reporter) waiting(name string, set settings) {
	if r.Waiting != nil {
		r.tell(r.Waiting, event(name, set.Asked), "")
	}
}

func (r *reporter) Acquired(l *client.Lease, waited time.Duration) {
	if r.Observer.Acquired == nil {
		return // fast, for hand-overs
	}
	e := eventOf(l)
	e.Waited, e.Idle, e.Behind = waited, l.Reused(), heldOf(l.Asked().Behind.Held())
	r.tell(r.Observer.Acquired, e, "")
}

func (r *reporter) waited(name string, set settings, err error) {
	if r.Waited == nil {
		return
	}
	e := event(name, set.Asked)
	e.Waited, e.Err, e.Behind = driver.Now().Sub(set.Began), err, heldOf(set.Behind.Held())
	r.tell(r.Waited, e, "")
}

func (r *reporter) Renewed(l *client.Lease, waited, left, ttl time.Duration) {
	e := eventOf(l)
	e.Waited, e.Left, e.TTL = waited, max(0, left), ttl
	r.tell(r.Observer.Renewed, e, "")
	r.Answered(waited, ttl)
}

// Answered warns, once, if the store answers too slowly for leases of ttl. Without a log slog.Default gets
// the warning, unless the observer watches renewals.
func (r *reporter) Answered(took, ttl time.Duration) {
	if took <= ttl/client.RoundTrips || r.log == nil && r.Observer.Renewed != nil {
		return
	}
	r.slow.Do(func() {
		r.urge(nil, Event{}, "the store takes more than a sixth of the TTL to answer: leases may be lost; use a longer TTL",
			"took", took.Round(time.Millisecond), "ttl", ttl, "at least", (client.RoundTrips * took).Round(time.Millisecond))
	})
}

func (r *reporter) Suspect(l *client.Lease, err error, left time.Duration) {
	e := eventOf(l)
	e.Err, e.Left = &Error{Name: l.Name(), Err: err}, left
	r.tell(r.Observer.Suspect, e, "lease is suspect", "name", l.Name(), "lease", l.ID(), "token", l.Token(), "left", left, "error", err)
}

func (r *reporter) Lost(l *client.Lease, err error) {
	e := eventOf(l)
	e.Held, e.Err = driver.Now().Sub(l.Began()), &Error{Name: l.Name(), Err: err}
	r.tell(r.Observer.Lost, e, "lease is lost", "name", l.Name(), "lease", l.ID(), "token", l.Token(), "error", err)
}

func (r *reporter) Released(l *client.Lease, err error, idle bool) {
	if r.Observer.Released == nil {
		return // fast, without reading the clock
	}
	e := eventOf(l)
	e.Held, e.Err, e.Idle = driver.Now().Sub(l.Began()), err, idle
	r.tell(r.Observer.Released, e, "")
}

func (r *reporter) broken(name, lease, why string) {
	r.tell(r.Broken, Event{Name: name, Lease: lease}, "broke a lease", "name", name, "lease", lease, "why", why)
}

func (r *reporter) news(n driver.News) {
	e := Event{Server: n.Server, Step: n.Step, Left: n.Closed}
	if n.Step != 0 {
		r.tell(r.Stepped, e, "a store's clock was set (forward, it ends leases early; back, late): check its time service",
			"forward", n.Step.Round(time.Millisecond), "server", n.Server)
	}
	if n.Silent > 0 {
		e.Waited = n.Silent
		r.tell(r.Silent, e, "the store does not answer", "since", n.Silent.Round(time.Millisecond), "server", n.Server)
	}
	if n.Refused != nil {
		e.Err = &Error{Err: n.Refused}
		r.urge(r.Refused, e, "the store refuses requests for leases", "error", n.Refused)
	}
	if n.Closed > 0 {
		r.urge(r.Closed, e, "the store is new here, has restarted or has lost its data: no new leases until those that it may have forgotten have ended",
			"left", n.Closed.Round(time.Millisecond), "server", n.Server, "do", "wait; if nobody holds a lease from before, run pawl bless")
	}
}

// urge is tell for a warning that explains why calls of Acquire wait. If the program has neither a log nor f,
// slog.Default gets the warning, once.
func (r *reporter) urge(f func(Event), e Event, warning string, args ...any) {
	if r.log != nil || f != nil {
		r.tell(f, e, warning, args...)
	} else if _, again := r.urged.LoadOrStore(warning, true); !again {
		r.tell(func(Event) { slog.Warn("pawl: "+warning, args...) }, e, "")
	}
}

func (r *reporter) deposed(l *client.Lease, err error) {
	r.tell(nil, Event{}, "the leader has stopped after its lease was lost", "name", l.Name(), "lease", l.ID(), "token", l.Token(), "error", err)
}

func (r *reporter) notGivenBack(err error) {
	r.tell(nil, Event{}, "a lease could not be released: others wait until it ends", "error", err)
}
