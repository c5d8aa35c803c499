// SPDX-License-Identifier: Apache-2.0

// Package prompawl counts what happens to the locks of pawl for Prometheus. docs/metrics.md
// says what each metric means; the dashboard and the alerts of the folder metrics use them.
package prompawl

import (
	"sync"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/metrics/internal/measure"
	"github.com/prometheus/client_golang/prometheus"
)

// Options are the settings of Metrics. A nil *Options is the same as an empty one.
type Options struct {
	// Class returns the value of the label class for the name of a lock. Each class has
	// series of its own, so there have to be few: the name itself is a class only where
	// names are few. With nil all names are one class, "".
	Class func(name string) string
}

// Metrics are the metrics of one or several clients, and a prometheus.Collector of them.
type Metrics struct {
	class func(string) string
	live  measure.Live

	wait, hold, margin   *prometheus.HistogramVec
	waiting, held        *prometheus.GaugeVec
	lost, steps          *prometheus.CounterVec
	oldest, closed, mute *prometheus.Desc

	mu     sync.Mutex
	groups map[measure.Group]*group
}

// group has the series of one group, so that an event need not look for them.
type group struct {
	measure.Group
	waiting, held           prometheus.Gauge
	granted, gaveUp, failed prometheus.Observer
	released, lostAfter     prometheus.Observer
	margin                  prometheus.Observer
}

// New makes Metrics. Register them once, and give their Observer to the clients that they
// are of.
func New(opts *Options) *Metrics {
	if opts == nil {
		opts = &Options{}
	}
	return &Metrics{
		class:   opts.Class,
		groups:  map[measure.Group]*group{},
		wait:    histogram(measure.WaitDuration),
		hold:    histogram(measure.HoldDuration),
		margin:  histogram(measure.RenewalMargin),
		waiting: gauge(measure.Waiting),
		held:    gauge(measure.Held),
		lost:    counter(measure.Lost),
		steps:   counter(measure.ClockSteps),
		oldest:  desc(measure.OldestHeld),
		closed:  desc(measure.Quarantine),
		mute:    desc(measure.Silent),
	}
}

func histogram(i *measure.Instrument) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: i.Prometheus(), Help: i.Help, Buckets: i.Bounds}, i.Labels)
}

func gauge(i *measure.Instrument) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: i.Prometheus(), Help: i.Help}, i.Labels)
}

func counter(i *measure.Instrument) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: i.Prometheus(), Help: i.Help}, i.Labels)
}

func desc(i *measure.Instrument) *prometheus.Desc {
	return prometheus.NewDesc(i.Prometheus(), i.Help, i.Labels, nil)
}

// Observer returns what counts the events of a client; see pawl.Options. It may be given to
// several clients, which are counted together then.
func (m *Metrics) Observer() pawl.Observer {
	return pawl.Observer{
		Waiting:  func(e pawl.Event) { m.group(e).waiting.Inc() },
		Acquired: m.acquired,
		Waited:   m.waited,
		Renewed:  func(e pawl.Event) { m.group(e).margin.Observe(measure.Margin(e)) },
		Lost:     m.lose,
		Released: func(e pawl.Event) {
			g := m.group(e)
			m.live.Ended(e)
			g.held.Dec()
			g.released.Observe(e.Held.Seconds())
		},
		Stepped: func(e pawl.Event) { m.steps.WithLabelValues(e.Server, measure.DirectionOf(e)).Inc() },
		Closed:  m.live.Closed,
		Silent:  m.live.Silent,
	}
}

func (m *Metrics) acquired(e pawl.Event) {
	g := m.group(e)
	if !e.Tried {
		g.waiting.Dec()
		g.granted.Observe(e.Waited.Seconds())
	}
	g.held.Inc()
	m.live.Acquired(e, g.Group)
}

func (m *Metrics) waited(e pawl.Event) {
	g := m.group(e)
	g.waiting.Dec()
	if measure.NotGranted(e.Err) == measure.GaveUp {
		g.gaveUp.Observe(e.Waited.Seconds())
	} else {
		g.failed.Observe(e.Waited.Seconds())
	}
}

func (m *Metrics) lose(e pawl.Event) {
	g := m.group(e)
	m.live.Ended(e)
	g.held.Dec()
	g.lostAfter.Observe(e.Held.Seconds())
	m.lost.WithLabelValues(g.Class, g.Kind, string(measure.ReasonOf(e.Err))).Inc()
}

// group returns the series for an event.
func (m *Metrics) group(e pawl.Event) *group {
	key := measure.GroupOf(e, m.class)
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.groups[key]
	if g == nil {
		g = m.begin(key)
		m.groups[key] = g
	}
	return g
}

// begin begins all series of a group together, at 0: of one that begins at 1, Prometheus does
// not see that it has risen.
func (m *Metrics) begin(key measure.Group) *group {
	for _, r := range measure.Reasons {
		m.lost.WithLabelValues(key.Class, key.Kind, string(r))
	}
	wait := func(outcome string) prometheus.Observer { return m.wait.WithLabelValues(key.Class, key.Kind, outcome) }
	hold := func(outcome string) prometheus.Observer { return m.hold.WithLabelValues(key.Class, key.Kind, outcome) }
	return &group{
		Group:     key,
		waiting:   m.waiting.WithLabelValues(key.Class, key.Kind),
		held:      m.held.WithLabelValues(key.Class, key.Kind),
		granted:   wait(measure.Granted),
		gaveUp:    wait(measure.GaveUp),
		failed:    wait(measure.Failed),
		released:  hold(measure.Released),
		lostAfter: hold(measure.WasLost),
		margin:    m.margin.WithLabelValues(key.Class),
	}
}

func (m *Metrics) vectors() []prometheus.Collector {
	return []prometheus.Collector{m.wait, m.hold, m.margin, m.waiting, m.held, m.lost, m.steps}
}

// Describe is for prometheus.Registry.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range m.vectors() {
		v.Describe(ch)
	}
	ch <- m.oldest
	ch <- m.closed
	ch <- m.mute
}

// Collect is for prometheus.Registry.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, v := range m.vectors() {
		v.Collect(ch)
	}
	for g, age := range m.live.Oldest() {
		ch <- now(m.oldest, age, g.Class, g.Kind)
	}
	for server, left := range m.live.Quarantines() {
		ch <- now(m.closed, left, server)
	}
	for server, long := range m.live.Silences() {
		ch <- now(m.mute, long, server)
	}
}

func now(d *prometheus.Desc, value time.Duration, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value.Seconds(), labels...)
}
