// SPDX-License-Identifier: Apache-2.0

// Package prompawl counts the locks of pawl for Prometheus. docs/metrics.md describes each metric. The directory
// metrics contains a dashboard and alerts for them.
package prompawl

import (
	"context"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/metrics/internal/measure"
	"github.com/prometheus/client_golang/prometheus"
)

// Options are the settings of New. The zero value and a nil *Options are valid.
type Options struct {
	// Class returns the value of the label class for a lock's name. Each class has separate series, so use few
	// classes. The name itself can be the class only if there are few names. With nil all names have the class "".
	Class func(name string) string
}

// Metrics are the metrics of one or several clients. Metrics is a prometheus.Collector.
type Metrics struct {
	meter   *measure.Meter
	vectors vectors
	gauges  map[*measure.Instrument]*prometheus.Desc
}

// vectors contains the vector of each instrument that is not a gauge. It is a measure.Library.
type vectors map[*measure.Instrument]vector

// vector contains the series of one instrument. series returns a function that adds a value to one of them.
type vector struct {
	prometheus.Collector
	series func(labels ...string) func(value float64)
}

// New returns Metrics. Register them once, and give their Observer to the clients that they should count.
func New(opts *Options) *Metrics {
	if opts == nil {
		opts = &Options{}
	}
	m := &Metrics{vectors: vectors{}, gauges: map[*measure.Instrument]*prometheus.Desc{}}
	for _, i := range measure.Instruments {
		name := i.Prometheus()
		switch i.Kind {
		case measure.Histogram:
			v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: i.Help, Buckets: i.Bounds}, i.Labels)
			m.vectors[i] = vector{v, func(l ...string) func(float64) { return v.WithLabelValues(l...).Observe }}
		case measure.UpDown:
			v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: i.Help}, i.Labels)
			m.vectors[i] = vector{v, func(l ...string) func(float64) { return v.WithLabelValues(l...).Add }}
		case measure.Counter:
			v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: i.Help}, i.Labels)
			m.vectors[i] = vector{v, func(l ...string) func(float64) { return v.WithLabelValues(l...).Add }}
		case measure.Gauge:
			m.gauges[i] = prometheus.NewDesc(name, i.Help, i.Labels, nil)
		}
	}
	m.meter = measure.NewMeter(m.vectors, opts.Class)
	return m
}

// Begin implements measure.Library.
func (v vectors) Begin(i *measure.Instrument, labels ...string) { v[i].series(labels...) }

// Record implements measure.Library.
func (v vectors) Record(_ context.Context, i *measure.Instrument, value float64, labels ...string) {
	v[i].series(labels...)(value)
}

// Observer returns an Observer that counts the events of a client; see pawl.Options. If several clients have it,
// it counts them together.
func (m *Metrics) Observer() pawl.Observer { return m.meter.Observer() }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range m.vectors {
		v.Describe(ch)
	}
	for _, g := range m.gauges {
		ch <- g
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, v := range m.vectors {
		v.Collect(ch)
	}
	var now []prometheus.Metric
	m.meter.Gauges(func(i *measure.Instrument, value float64, labels ...string) {
		now = append(now, prometheus.MustNewConstMetric(m.gauges[i], prometheus.GaugeValue, value, labels...))
	})
	for _, metric := range now {
		ch <- metric
	}
}
