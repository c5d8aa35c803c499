// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/metrics/otelpawl"
	"github.com/pawl-go/pawl/metrics/prompawl"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// BenchmarkObserved acquires and releases a free name on the store that costs least. What
// metrics and traces cost is the difference in processor time, as an Observer has a goroutine
// of its own. It is the same on every store.
func BenchmarkObserved(b *testing.B) {
	b.Run("nobody", func(b *testing.B) { observed(b, pawl.Observer{}) })
	b.Run("nothing", func(b *testing.B) {
		f := func(pawl.Event) {}
		observed(b, pawl.Observer{Waiting: f, Acquired: f, Waited: f, Renewed: f, Suspect: f, Lost: f, Released: f})
	})
	b.Run("prompawl", func(b *testing.B) { observed(b, prompawl.New(nil).Observer()) })
	b.Run("otelpawl.Metrics", func(b *testing.B) {
		o, err := otelpawl.Metrics(&otelpawl.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))})
		if err != nil {
			b.Fatal(err)
		}
		observed(b, o)
	})
	for name, s := range map[string]sdktrace.Sampler{"all": sdktrace.AlwaysSample(), "none": sdktrace.NeverSample()} {
		b.Run("otelpawl.Traces,sampled="+name, func(b *testing.B) {
			observed(b, otelpawl.Traces(&otelpawl.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(s))}))
		})
	}
}

func observed(b *testing.B, o pawl.Observer) {
	told := make(chan struct{})
	last := pawl.Observer{Broken: func(pawl.Event) { close(told) }}
	locks, err := memlock.Open(&pawl.Options{Observer: pawl.JoinObservers(o, last)})
	if err != nil {
		b.Fatal(err)
	}
	defer locks.Close()
	pair := func(name string, during func(*pawl.Lease) error) {
		lease, err := locks.Acquire(b.Context(), name)
		if err == nil {
			err = during(lease)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	began := ownCPU()
	b.ReportAllocs()
	for b.Loop() {
		pair("bench", func(l *pawl.Lease) error { return l.Release(b.Context()) })
	}
	pair("last", func(l *pawl.Lease) error { return locks.Break(b.Context(), l.Name(), l.ID(), "the run is over") })
	<-told // and so of all that was before
	b.ReportMetric(float64(ownCPU()-began)/float64(b.N), "cpu-ns/op")
}
