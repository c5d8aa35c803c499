// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
)

// Library is a metrics library. The values of labels are in the order of Instrument.Labels.
type Library interface {
	// Begin begins a series at 0. If a series began at 1, a database would not see an increase.
	Begin(i *Instrument, labels ...string)
	// Record adds a value to a Counter, an UpDown or a Histogram. ctx is the context of a call, for its span. It
	// may have ended.
	Record(ctx context.Context, i *Instrument, value float64, labels ...string)
}

// Meter counts the events of one or several clients.
type Meter struct {
	library Library
	class   func(name string) string
	live    live

	mu    sync.Mutex
	begun map[Group]bool
}

// NewMeter returns a Meter that counts the names of each class together; see GroupOf.
func NewMeter(library Library, class func(name string) string) *Meter {
	return &Meter{
		library: library, class: class, begun: make(map[Group]bool),
		live: live{held: make(map[string]hold), groups: make(map[Group]bool), opens: make(map[string]time.Time), silent: make(map[string]silence)},
	}
}

// Observer returns an Observer that counts the events of a client.
func (m *Meter) Observer() pawl.Observer {
	return pawl.Observer{
		Waiting: func(e pawl.Event) { m.record(e, Waiting, 1) },
		Acquired: func(e pawl.Event) {
			if !e.Tried {
				m.waited(e, Granted)
			}
			m.record(e, Held, 1)
			m.live.acquired(e, GroupOf(e, m.class))
		},
		Waited:  func(e pawl.Event) { m.waited(e, NotGranted(e.Err)) },
		Renewed: func(e pawl.Event) { m.record(e, RenewalMargin, e.Left.Seconds()/e.TTL.Seconds()) },
		Lost: func(e pawl.Event) {
			m.ended(e, WasLost)
			m.record(e, Lost, 1, string(ReasonOf(e.Err)))
		},
		Released: func(e pawl.Event) { m.ended(e, Released) },
		Stepped: func(e pawl.Event) {
			direction := "forward"
			if e.Step < 0 {
				direction = "back"
			}
			m.library.Record(context.Background(), ClockSteps, 1, e.Server, direction)
		},
		Closed: m.live.closed,
		Silent: m.live.silenced,
	}
}

func (m *Meter) waited(e pawl.Event, outcome string) {
	m.record(e, Waiting, -1)
	m.record(e, WaitDuration, e.Waited.Seconds(), outcome)
}

func (m *Meter) ended(e pawl.Event, outcome string) {
	m.live.ended(e)
	m.record(e, Held, -1)
	m.record(e, HoldDuration, e.Held.Seconds(), outcome)
}

// record records a value for the group of an event.
func (m *Meter) record(e pawl.Event, i *Instrument, value float64, more ...string) {
	g := GroupOf(e, m.class)
	m.begin(g)
	m.library.Record(e.Context, i, value, g.labels(i, more...)...)
}

// labels returns the values of the labels of i: class and kind, as far as i has them, and then more.
func (g Group) labels(i *Instrument, more ...string) []string {
	return append([]string{g.Class, g.Kind}, more...)[:len(i.Labels)]
}

// begin begins all series of a group, if it has not done so before.
func (m *Meter) begin(g Group) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun[g] {
		return
	}
	m.begun[g] = true
	for _, i := range []*Instrument{Waiting, Held, RenewalMargin} {
		m.library.Begin(i, g.labels(i)...)
	}
	for _, outcome := range []string{Granted, GaveUp, Failed} {
		m.library.Begin(WaitDuration, g.labels(WaitDuration, outcome)...)
	}
	for _, outcome := range []string{Released, WasLost} {
		m.library.Begin(HoldDuration, g.labels(HoldDuration, outcome)...)
	}
	for _, r := range reasons {
		m.library.Begin(Lost, g.labels(Lost, string(r))...)
	}
}

// Group is a class and a kind. The events of a group are counted together.
type Group struct{ Class, Kind string }

// GroupOf returns the group of an event. If class is nil, all names are in the class "".
func GroupOf(e pawl.Event, class func(string) string) Group {
	g := Group{Kind: "exclusive"}
	switch {
	case e.Shared:
		g.Kind = "shared"
	case e.Slots > 0:
		g.Kind = "slots"
	}
	if class != nil {
		g.Class = class(e.Name)
	}
	return g
}

// The outcomes of a wait, and of a lease.
const (
	Granted = "granted"
	GaveUp  = "gave_up" // the context of the call has ended
	Failed  = "failed"

	Released = "released"
	WasLost  = "lost"
)

// NotGranted returns the outcome of a wait that ended with err.
func NotGranted(err error) string {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return GaveUp
	}
	return Failed
}

var reasons = []pawl.Reason{pawl.ReasonExpired, pawl.ReasonBroken, pawl.ReasonGone, pawl.ReasonLimit, pawl.ReasonStuck}

// ReasonOf returns the reason of a loss from the error of its event.
func ReasonOf(err error) pawl.Reason {
	var lost *pawl.LostError
	if errors.As(err, &lost) {
		return lost.Reason
	}
	return pawl.ReasonGone
}
