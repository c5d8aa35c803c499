// SPDX-License-Identifier: Apache-2.0

package prompawl_test

import (
	"context"
	"log"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/metrics/prompawl"
	"github.com/prometheus/client_golang/prometheus"
)

// One Metrics for the process. The class of "invoice/42" is "invoice".
func Example() {
	metrics := prompawl.New(&prompawl.Options{Class: func(name string) string {
		class, _, _ := strings.Cut(name, "/")
		return class
	}})
	prometheus.MustRegister(metrics) // promhttp.Handler shows what is registered

	locks, err := memlock.Open(&pawl.Options{Observer: metrics.Observer()})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = locks.Do(context.Background(), "invoice/42", func(context.Context, *pawl.Lease) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
}

// Two stores: a label tells them apart.
func ExampleMetrics_stores() {
	registry := prometheus.NewRegistry()
	for _, store := range []string{"jobs", "invoices"} {
		metrics := prompawl.New(nil)
		prometheus.WrapRegistererWith(prometheus.Labels{"store": store}, registry).MustRegister(metrics)
		locks, err := memlock.Open(&pawl.Options{Observer: metrics.Observer()})
		if err != nil {
			log.Fatal(err)
		}
		defer locks.Close()
	}
}
