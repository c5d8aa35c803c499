// SPDX-License-Identifier: Apache-2.0

// Package otelpawl reports the locks of pawl to OpenTelemetry. Metrics counts events. Traces makes a span for each
// wait and each lease. docs/metrics.md describes them.
package otelpawl

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/pawl-go/pawl/metrics/otelpawl"

// Options are the settings of Metrics and Traces. The zero value and a nil *Options are valid.
type Options struct {
	// Class returns the class of a lock's name, which is an attribute of metrics and spans. Each class has
	// separate series, so use few classes. The name itself can be the class only if there are few names. With nil
	// there is no attribute.
	Class func(name string) string

	// MeterProvider is the provider for Metrics. The default is the global one.
	MeterProvider metric.MeterProvider

	// TracerProvider is the provider for Traces. The default is the global one.
	TracerProvider trace.TracerProvider

	// Names adds the names of locks and the texts of errors, which may contain names, to spans.
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
