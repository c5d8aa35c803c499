// SPDX-License-Identifier: Apache-2.0

package otelpawl

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl/metrics/internal/measure"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// maker makes instruments and collects the errors.
type maker struct {
	metric.Meter
	errs []error
}

func (m *maker) histogram(i *measure.Instrument) metric.Float64Histogram {
	h, err := m.Float64Histogram(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help), metric.WithExplicitBucketBoundaries(i.Bounds...))
	m.errs = append(m.errs, err)
	return h
}

func (m *maker) upDown(i *measure.Instrument) metric.Int64UpDownCounter {
	c, err := m.Int64UpDownCounter(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help))
	m.errs = append(m.errs, err)
	return c
}

func (m *maker) counter(i *measure.Instrument) metric.Int64Counter {
	c, err := m.Int64Counter(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help))
	m.errs = append(m.errs, err)
	return c
}

func (m *maker) gauge(i *measure.Instrument) metric.Float64ObservableGauge {
	g, err := m.Float64ObservableGauge(i.Name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help))
	m.errs = append(m.errs, err)
	return g
}

// make makes the instruments.
func (m *meters) make(meter metric.Meter) error {
	of := maker{Meter: meter}
	m.wait, m.hold, m.margin = of.histogram(measure.WaitDuration), of.histogram(measure.HoldDuration), of.histogram(measure.RenewalMargin)
	m.waiting, m.held = of.upDown(measure.Waiting), of.upDown(measure.Held)
	m.lost, m.steps = of.counter(measure.Lost), of.counter(measure.ClockSteps)
	oldest, closed, silent := of.gauge(measure.OldestHeld), of.gauge(measure.Quarantine), of.gauge(measure.Silent)
	if err := errors.Join(of.errs...); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for g, age := range m.live.Oldest() {
			to.ObserveFloat64(oldest, age.Seconds(), attributes(g))
		}
		for server, left := range m.live.Quarantines() {
			to.ObserveFloat64(closed, left.Seconds(), with(attribute.String(measure.ServerLabel, server)))
		}
		for server, long := range m.live.Silences() {
			to.ObserveFloat64(silent, long.Seconds(), with(attribute.String(measure.ServerLabel, server)))
		}
		return nil
	}, oldest, closed, silent)
	return err
}
