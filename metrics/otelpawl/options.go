// SPDX-License-Identifier: Apache-2.0

// Package otelpawl tells OpenTelemetry what happens to the locks of pawl: Metrics counts, and
// Traces makes a span of each wait and of each lease. docs/metrics.md says what they mean.
package otelpawl

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/pawl-go/pawl/metrics/otelpawl"

// Options are the settings of Metrics and Traces. A nil *Options is the same as an empty one.
type Options struct {
	// Class returns the class of the name of a lock, an attribute of metrics and spans. Each
	// class has metrics of its own, so there have to be few: the name itself is a class only
	// where names are few. With nil all names are one class, and there is no attribute.
	Class func(name string) string

	// MeterProvider is where Metrics come from; with nil it is the global one.
	MeterProvider metric.MeterProvider

	// TracerProvider is where Traces come from; with nil it is the global one.
	TracerProvider trace.TracerProvider

	// Names puts the names of locks, and errors, which may have them, into spans.
	Names bool
}

func (o *Options) meter() metric.Meter {
	if o.MeterProvider == nil {
		return otel.GetMeterProvider().Meter(scope)
	}
	return o.MeterProvider.Meter(scope)
}

func (o *Options) tracer() trace.Tracer {
	if o.TracerProvider == nil {
		return otel.GetTracerProvider().Tracer(scope)
	}
	return o.TracerProvider.Tracer(scope)
}
