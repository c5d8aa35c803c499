// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"log/slog"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Observer is told what happens to a client's leases, for metrics and
// traces. A nil function is not called. The functions may be called from any
// goroutine, several at once, and must not block: renewals wait for them.
type Observer struct {
	// Acquired: a lease was granted, after Event.Waited.
	Acquired func(Event)
	// Waited: a call of Acquire has ended without a lease, after Event.Waited,
	// because of Event.Err.
	Waited func(Event)
	// Renewed: the store confirmed the lease anew, after Event.Waited; it is
	// held again if it was suspect.
	Renewed func(Event)
	// Suspect: a renewal failed (Event.Err) or is overdue (Event.Err is nil).
	Suspect func(Event)
	// Lost: the lease ended without us; Event.Err is an ErrLost.
	Lost func(Event)
	// Released: the lease was given back. Event.Err is not nil if the store
	// could not be told; it is told in the background then.
	Released func(Event)
	// Broken: this client broke the lease Event.Lease of somebody else.
	Broken func(Event)
}

// Event is one thing that happened to a lease.
type Event struct {
	Name   string
	Lease  string        // the lease's id; empty if there is none
	Token  Token         // 0 if there is none
	Waited time.Duration // how long a request took
	Held   time.Duration // how long the lease was held, once it has ended
	Err    error
}

func notify(f func(Event), e Event) {
	if f != nil {
		f(e)
	}
}

// reporter tells the observer and the log.
type reporter struct {
	Observer
	log *slog.Logger // may be nil
}

func (r *reporter) acquired(l *Lease, waited time.Duration) {
	notify(r.Acquired, Event{Name: l.name, Lease: l.id, Token: l.token, Waited: waited})
}

func (r *reporter) renewed(l *Lease, waited time.Duration) {
	notify(r.Renewed, Event{Name: l.name, Lease: l.id, Token: l.token, Waited: waited})
}

func (r *reporter) suspect(l *Lease, err error) {
	notify(r.Suspect, Event{Name: l.name, Lease: l.id, Token: l.token, Err: err})
	r.warn("lease is suspect", "name", l.name, "lease", l.id, "token", l.token,
		"left", time.Until(l.Deadline()), "error", err)
}

func (r *reporter) lost(l *Lease) {
	err := l.ended()
	notify(r.Lost, Event{Name: l.name, Lease: l.id, Token: l.token, Held: driver.Now().Sub(l.began), Err: err})
	r.warn("lease is lost", "name", l.name, "lease", l.id, "token", l.token, "error", err)
}

func (r *reporter) released(l *Lease, err error) {
	notify(r.Released, Event{Name: l.name, Lease: l.id, Token: l.token, Held: driver.Now().Sub(l.began), Err: err})
}

func (r *reporter) warn(msg string, args ...any) {
	if r.log != nil {
		r.log.Warn("pawl: "+msg, args...)
	}
}
