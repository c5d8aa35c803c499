// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// BenchmarkEfficiency is what the mode of that name buys: an Acquire and a Release
// with Correctness, in turn with Efficiency, one after the other and 64 at a time.
// It tells how many times as long the former take.
func BenchmarkEfficiency(b *testing.B) {
	r := blessedServer(b)
	ours, err := Open(b.Context(), r.url(), longOptions())
	if err != nil {
		b.Fatal(err)
	}
	defer ours.Close()
	fast, err := Open(b.Context(), r.url(), &Options{Mode: Efficiency})
	if err != nil {
		b.Fatal(err)
	}
	defer fast.Close()
	for _, at := range []int{1, 64} {
		b.Run(strconv.Itoa(at), func(b *testing.B) {
			round := func(c *pawl.Client, name string) time.Duration {
				began := time.Now()
				var all sync.WaitGroup
				for i := range at {
					all.Go(func() {
						for range 20 {
							l, err := c.Acquire(b.Context(), name+strconv.Itoa(i))
							if err == nil {
								err = l.Release(b.Context())
							}
							if err != nil {
								b.Error(err)
							}
						}
					})
				}
				all.Wait()
				return time.Since(began)
			}
			var ratios []float64
			for b.Loop() {
				efficient := round(fast, "fast")
				ratios = append(ratios, float64(round(ours, "ours"))/float64(efficient))
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "times-as-long")
		})
	}
}
