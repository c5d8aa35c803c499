// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"fmt"
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
