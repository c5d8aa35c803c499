// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

func BenchmarkAcquireRelease(b *testing.B) {
	locks, err := memlock.Open(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer locks.Close()
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		lease, err := locks.Acquire(ctx, "bench")
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPassOn has 64 goroutines take turns with one grant, without further requests
// to the store.
func BenchmarkPassOn(b *testing.B) {
	d := reserve(new(memlock.Store), 1<<30)
	locks := open(b, d, nil)
	var done atomic.Int64
	var all sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range 64 {
		all.Go(func() {
			for done.Add(1) <= int64(b.N) {
				release(b, acquire(b, locks, "bench"))
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(d.tries.Load())/float64(b.N), "requests/op")
}

// BenchmarkHeldLeases holds 100,000 leases, all renewed every second, and
// reports what one of them costs.
func BenchmarkHeldLeases(b *testing.B) {
	const n = 100_000
	ctx := context.Background()
	for b.Loop() {
		locks, err := memlock.Open(&pawl.Options{TTL: 3 * time.Second})
		if err != nil {
			b.Fatal(err)
		}
		before, goroutines := heap(), runtime.NumGoroutine()
		leases := make([]*pawl.Lease, n)
		for i := range leases {
			if leases[i], err = locks.Acquire(ctx, "lease/"+strconv.Itoa(i)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(heap()-before)/n, "bytes/lease")
		cpu := processTime()
		time.Sleep(6 * time.Second) // two TTLs: a lease that is not renewed is lost
		b.ReportMetric(float64(processTime()-cpu)/6/n, "cpu-ns/lease/s")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
		for _, l := range leases {
			if err := l.Err(); err != nil {
				b.Fatal(err)
			}
		}
		if err := locks.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
