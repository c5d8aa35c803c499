// SPDX-License-Identifier: Apache-2.0

// Package otelpawl reports the locks of pawl to OpenTelemetry. Metrics counts, and Traces makes a
// span of each wait and of each lease. docs/metrics.md describes them.
package otelpawl

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/pawl-go/pawl/metrics/otelpawl"

// Options are the settings of Metrics and Traces. A nil *Options is the same as the zero value.
type Options struct {
	// Class returns the class of the name of a lock, an attribute of metrics and spans. Each class has its
	// own series, so use few: the name itself is a class only if there are few names. With nil there is no
	// attribute.
	Class func(name string) string

	// MeterProvider is for Metrics. The default is the global one.
	MeterProvider metric.MeterProvider

	// TracerProvider is for Traces. The default is the global one.
	TracerProvider trace.TracerProvider

	// Names adds the names of locks to spans, and errors, which may contain names.
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
