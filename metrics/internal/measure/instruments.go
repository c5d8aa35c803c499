// SPDX-License-Identifier: Apache-2.0

// Package measure is shared by the modules for Prometheus and OpenTelemetry. It defines the metrics and their
// names, and computes the gauges when a library reads them. docs/metrics.md describes the metrics.
//
// This package is in the root module. The other modules may be built with a newer version of the root module than
// they require. So from the first release on, add to this package, and do not change or remove anything that they
// use.
package measure

import "strings"

// Instrument is one metric.
type Instrument struct {
	Name string // the name in OpenTelemetry
	Unit string // s is seconds, 1 a ratio, {call} calls
	Kind Kind
	Help string

	Labels []string
	Bounds []float64 // the bucket bounds of a Histogram
}

// Kind is how an instrument counts.
type Kind int

const (
	Histogram Kind = iota
	Counter
	UpDown // a sum of steps up and down
	Gauge  // computed when a library reads it
)

// Prometheus returns the name in Prometheus. It applies OpenTelemetry's rules for Prometheus to Name, so that the
// dashboard and the alerts fit both libraries.
func (i *Instrument) Prometheus() string {
	name := strings.ReplaceAll(i.Name, ".", "_")
	if i.Unit == "s" {
		name += "_seconds"
	}
	if i.Kind == Counter {
		name += "_total"
	}
	return name
}

const (
	ClassLabel     = "class"     // what Options.Class returns for the name
	KindLabel      = "kind"      // exclusive, shared, slots
	OutcomeLabel   = "outcome"   // how a wait or a lease has ended
	ReasonLabel    = "reason"    // why a lease was lost; a pawl.Reason
	ServerLabel    = "server"    // a server of the store
	DirectionLabel = "direction" // forward or back: how a clock was set
)

var (
	WaitDuration = &Instrument{
		Name: "pawl.wait.duration", Unit: "s", Kind: Histogram, Labels: []string{ClassLabel, KindLabel, OutcomeLabel},
		Help:   "How long a call of Acquire waited until it was granted the lease, gave up or failed.",
		Bounds: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800},
	}
	HoldDuration = &Instrument{
		Name: "pawl.hold.duration", Unit: "s", Kind: Histogram, Labels: []string{ClassLabel, KindLabel, OutcomeLabel},
		Help:   "How long a lease was held until it was released or lost.",
		Bounds: []float64{.001, .01, .1, .5, 1, 5, 10, 60, 600, 3600, 21600, 86400},
	}
	Waiting = &Instrument{
		Name: "pawl.waiting", Unit: "{call}", Kind: UpDown, Labels: []string{ClassLabel, KindLabel},
		Help: "Calls of Acquire that wait.",
	}
	Held = &Instrument{
		Name: "pawl.held", Unit: "{lease}", Kind: UpDown, Labels: []string{ClassLabel, KindLabel},
		Help: "Leases that are held.",
	}
	OldestHeld = &Instrument{
		Name: "pawl.held.oldest", Unit: "s", Kind: Gauge, Labels: []string{ClassLabel, KindLabel},
		Help: "For how long the lease is held that has been held for longest; 0 if none is.",
	}
	RenewalMargin = &Instrument{
		Name: "pawl.renewal.margin_ratio", Unit: "1", Kind: Histogram, Labels: []string{ClassLabel},
		Help:   "Which part of the TTL was left of the trust window when a renewal came: two thirds if all is well, nothing when the lease is lost.",
		Bounds: []float64{.05, .1, .2, .3, .4, .5, .6, .7, .8, .9},
	}
	Lost = &Instrument{
		Name: "pawl.lost", Unit: "{lease}", Kind: Counter, Labels: []string{ClassLabel, KindLabel, ReasonLabel},
		Help: "Leases that ended although their holder did not release them.",
	}
	ClockSteps = &Instrument{
		Name: "pawl.store.clock.steps", Unit: "{step}", Kind: Counter, Labels: []string{ServerLabel, DirectionLabel},
		Help: "Times that the clock of a server was set, by which it ends leases.",
	}
	Quarantine = &Instrument{
		Name: "pawl.store.quarantine", Unit: "s", Kind: Gauge, Labels: []string{ServerLabel},
		Help: "For how much longer a server grants nothing, because it may have forgotten leases; 0 if it grants.",
	}
	Silent = &Instrument{
		Name: "pawl.store.silent", Unit: "s", Kind: Gauge, Labels: []string{ServerLabel},
		Help: "For how long a server has not answered; 0 if it answers.",
	}
)

// Instruments contains all instruments.
var Instruments = []*Instrument{WaitDuration, HoldDuration, Waiting, Held, OldestHeld, RenewalMargin, Lost, ClockSteps, Quarantine, Silent}
