// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

func BenchmarkAcquireRelease(b *testing.B) {
	for _, n := range []int{3, 5} {
		b.Run(fmt.Sprint(n, " nodes"), func(b *testing.B) {
			opts := patient()
			d := dialFleet(b, startFleet(b, n, opts), opts)
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				g, err := d.TryAcquire(ctx, long())
				if err != nil {
					b.Fatal(err)
				}
				if err := g.Release(ctx); err != nil {
					b.Fatal(err)
				}
			}
			s := d.Stats()
			b.ReportMetric(float64(s.Rounds)/float64(s.Grants), "rounds/op")
		})
	}
}

// BenchmarkTogether is 64 goroutines of one participant, each with its own name.
func BenchmarkTogether(b *testing.B) {
	opts := patient()
	d := dialFleet(b, startFleet(b, 5, opts), opts)
	left := make(chan struct{}, b.N)
	for range b.N {
		left <- struct{}{}
	}
	close(left)
	b.ReportAllocs()
	b.ResetTimer()
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			req := long()
			req.Name = fmt.Sprint(i)
			for range left {
				req := *req
				req.Lease = long().Lease
				g, err := d.TryAcquire(b.Context(), &req)
				if err != nil {
					b.Error(err)
					return
				}
				if err := g.Release(b.Context()); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkRenew(b *testing.B) {
	opts := patient()
	d := dialFleet(b, startFleet(b, 3, opts), opts)
	g, err := d.TryAcquire(b.Context(), long())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Renew(b.Context(), time.Minute); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkContention is one name that several participants want all the time.
func BenchmarkContention(b *testing.B) {
	for _, n := range []int{2, 8, 32} {
		b.Run(fmt.Sprint(n, " participants"), func(b *testing.B) {
			opts := patient()
			f := startFleet(b, 3, opts)
			var drivers []*store
			for range n {
				drivers = append(drivers, dialFleet(b, f, opts))
			}
			left := make(chan struct{}, b.N)
			for range b.N {
				left <- struct{}{}
			}
			close(left)
			b.ResetTimer()
			var all sync.WaitGroup
			for _, d := range drivers {
				all.Go(func() {
					for range left {
						g, err := d.Acquire(b.Context(), long())
						if err != nil {
							b.Error(err)
							return
						}
						if err := g.Release(b.Context()); err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
			var rounds, splits int64
			for _, d := range drivers {
				rounds += d.Stats().Rounds
				splits += d.Stats().Splits
			}
			b.ReportMetric(float64(rounds)/float64(b.N), "rounds/op")
			b.ReportMetric(float64(splits)/float64(b.N), "splits/op")
		})
	}
}
