// SPDX-License-Identifier: Apache-2.0

package otelpawl

import (
	"context"
	"sync"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/metrics/internal/measure"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Metrics returns an Observer that counts the events of a client; see pawl.Options. It may be
// given to several clients, which are counted together then. Make one for the process: the
// MeterProvider keeps what it needs of each.
func Metrics(opts *Options) (pawl.Observer, error) {
	if opts == nil {
		opts = &Options{}
	}
	m := &meters{class: opts.Class, groups: map[measure.Group]*group{}}
	if err := m.make(opts.meter()); err != nil {
		return pawl.Observer{}, err
	}
	// The context of a call, which may have ended, is there for its span: for exemplars.
	return pawl.Observer{
		Waiting:  func(e pawl.Event) { m.waiting.Add(e.Context, 1, m.group(e).all) },
		Acquired: m.acquired,
		Waited:   m.waited,
		Renewed:  func(e pawl.Event) { m.margin.Record(e.Context, measure.Margin(e), m.group(e).class) },
		Lost:     m.lose,
		Released: m.released,
		Stepped: func(e pawl.Event) {
			m.steps.Add(context.Background(), 1, with(attribute.String(measure.ServerLabel, e.Server), attribute.String(measure.DirectionLabel, measure.DirectionOf(e))))
		},
		Closed: m.live.Closed,
		Silent: m.live.Silent,
	}, nil
}

type meters struct {
	class func(string) string
	live  measure.Live

	wait, hold, margin metric.Float64Histogram
	waiting, held      metric.Int64UpDownCounter
	lost, steps        metric.Int64Counter

	mu     sync.Mutex
	groups map[measure.Group]*group
}

// group has the attributes of one group, made once.
type group struct {
	measure.Group
	all, class              metric.MeasurementOption
	granted, gaveUp, failed metric.MeasurementOption
	released, wasLost       metric.MeasurementOption
}

func with(attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attributes...))
}

// attributes returns those of a group: no class is no attribute.
func attributes(g measure.Group, more ...attribute.KeyValue) metric.MeasurementOption {
	return with(append(more, append(classOf(g), attribute.String(measure.KindLabel, g.Kind))...)...)
}

func classOf(g measure.Group) []attribute.KeyValue {
	if g.Class == "" {
		return nil
	}
	return []attribute.KeyValue{attribute.String(measure.ClassLabel, g.Class)}
}

func (m *meters) group(e pawl.Event) *group {
	key := measure.GroupOf(e, m.class)
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.groups[key]
	if g != nil {
		return g
	}
	outcome := func(o string) metric.MeasurementOption {
		return attributes(key, attribute.String(measure.OutcomeLabel, o))
	}
	g = &group{
		Group: key, all: attributes(key), class: with(classOf(key)...),
		granted: outcome(measure.Granted), gaveUp: outcome(measure.GaveUp), failed: outcome(measure.Failed),
		released: outcome(measure.Released), wasLost: outcome(measure.WasLost),
	}
	m.groups[key] = g
	for _, r := range measure.Reasons { // of a sum that begins at 1, nobody sees that it has risen
		m.lost.Add(context.Background(), 0, attributes(key, attribute.String(measure.ReasonLabel, string(r))))
	}
	return g
}

func (m *meters) acquired(e pawl.Event) {
	g, ctx := m.group(e), e.Context
	if !e.Tried {
		m.waiting.Add(ctx, -1, g.all)
		m.wait.Record(ctx, e.Waited.Seconds(), g.granted)
	}
	m.held.Add(ctx, 1, g.all)
	m.live.Acquired(e, g.Group)
}

func (m *meters) waited(e pawl.Event) {
	g, ctx := m.group(e), e.Context
	m.waiting.Add(ctx, -1, g.all)
	outcome := g.failed
	if measure.NotGranted(e.Err) == measure.GaveUp {
		outcome = g.gaveUp
	}
	m.wait.Record(ctx, e.Waited.Seconds(), outcome)
}

func (m *meters) released(e pawl.Event) {
	g := m.group(e)
	m.ended(e, g, g.released)
}

func (m *meters) lose(e pawl.Event) {
	g := m.group(e)
	m.ended(e, g, g.wasLost)
	m.lost.Add(e.Context, 1, attributes(g.Group, attribute.String(measure.ReasonLabel, string(measure.ReasonOf(e.Err)))))
}

func (m *meters) ended(e pawl.Event, g *group, outcome metric.MeasurementOption) {
	m.live.Ended(e)
	m.held.Add(e.Context, -1, g.all)
	m.hold.Record(e.Context, e.Held.Seconds(), outcome)
}
