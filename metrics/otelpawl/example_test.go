// SPDX-License-Identifier: Apache-2.0

package otelpawl_test

import (
	"context"
	"log"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/metrics/otelpawl"
)

// Metrics and traces, by the global providers. The class of "invoice/42" is "invoice".
func Example() {
	opts := &otelpawl.Options{Class: func(name string) string {
		class, _, _ := strings.Cut(name, "/")
		return class
	}}
	metrics, err := otelpawl.Metrics(opts)
	if err != nil {
		log.Fatal(err)
	}
	locks, err := memlock.Open(&pawl.Options{Observer: pawl.JoinObservers(metrics, otelpawl.Traces(opts))})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = locks.Do(context.Background(), "invoice/42", func(context.Context, *pawl.Lease) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
}
