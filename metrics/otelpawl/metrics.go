// SPDX-License-Identifier: Apache-2.0

package otelpawl

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/metrics/internal/measure"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Metrics returns an Observer that counts the events of a client; see pawl.Options. If several clients have the
// Observer, it counts them together. Call Metrics once per process, because the MeterProvider keeps what each call
// registers.
func Metrics(opts *Options) (pawl.Observer, error) {
	if opts == nil {
		opts = &Options{}
	}
	meter, record, gauges := opts.meter(), recorders{}, map[*measure.Instrument]metric.Float64ObservableGauge{}
	var observed []metric.Observable
	var errs []error
	for _, i := range measure.Instruments {
		unit, help := metric.WithUnit(i.Unit), metric.WithDescription(i.Help)
		var err error
		switch i.Kind {
		case measure.Histogram:
			var h metric.Float64Histogram
			h, err = meter.Float64Histogram(i.Name, unit, help, metric.WithExplicitBucketBoundaries(i.Bounds...))
			record[i] = func(ctx context.Context, value float64, of metric.MeasurementOption) { h.Record(ctx, value, of) }
		case measure.UpDown:
			var c metric.Int64UpDownCounter
			c, err = meter.Int64UpDownCounter(i.Name, unit, help)
			record[i] = func(ctx context.Context, value float64, of metric.MeasurementOption) { c.Add(ctx, int64(value), of) }
		case measure.Counter:
			var c metric.Int64Counter
			c, err = meter.Int64Counter(i.Name, unit, help)
			record[i] = func(ctx context.Context, value float64, of metric.MeasurementOption) { c.Add(ctx, int64(value), of) }
		case measure.Gauge:
			gauges[i], err = meter.Float64ObservableGauge(i.Name, unit, help)
			observed = append(observed, gauges[i])
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return pawl.Observer{}, err
	}
	m := measure.NewMeter(record, opts.Class)
	_, err := meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		m.Gauges(func(i *measure.Instrument, value float64, labels ...string) {
			to.ObserveFloat64(gauges[i], value, attributes(i, labels))
		})
		return nil
	}, observed...)
	if err != nil {
		return pawl.Observer{}, err
	}
	return m.Observer(), nil
}

// recorders contains a function for each instrument that records a value. It is a measure.Library.
type recorders map[*measure.Instrument]func(ctx context.Context, value float64, of metric.MeasurementOption)

// Begin implements measure.Library.
func (r recorders) Begin(i *measure.Instrument, labels ...string) {
	if i.Kind != measure.Histogram { // a histogram without values has no series
		r.Record(context.Background(), i, 0, labels...)
	}
}

// Record implements measure.Library.
func (r recorders) Record(ctx context.Context, i *measure.Instrument, value float64, labels ...string) {
	r[i](ctx, value, attributes(i, labels))
}

// attributes returns labels as attributes. It leaves out an empty class.
func attributes(i *measure.Instrument, labels []string) metric.MeasurementOption {
	var all []attribute.KeyValue
	for n, value := range labels {
		if key := i.Labels[n]; key != measure.ClassLabel || value != "" {
			all = append(all, attribute.String(key, value))
		}
	}
	return metric.WithAttributes(all...)
}
