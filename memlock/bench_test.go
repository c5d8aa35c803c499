// SPDX-License-Identifier: Apache-2.0

package memlock_test

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
	"github.com/pawl-go/pawl/memlock"
)

func request(name, lease string) *driver.Request {
	return &driver.Request{Name: name, Lease: lease, TTL: time.Hour, Holder: &driver.Holder{Who: "bench"}}
}

func BenchmarkTryAcquireRelease(b *testing.B) {
	ctx := context.Background()
	d := participant.New(new(memlock.Store).Participant(), participant.Options{})
	req := request("deploy", "1")
	b.ReportAllocs()
	for b.Loop() {
		g, err := d.TryAcquire(ctx, req)
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRenew(b *testing.B) {
	ctx := context.Background()
	g, err := participant.New(new(memlock.Store).Participant(), participant.Options{}).TryAcquire(ctx, request("deploy", "1"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Renew(ctx, time.Hour); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHandOff is one lock that goes round among waiters.
func BenchmarkHandOff(b *testing.B) {
	ctx := context.Background()
	var s memlock.Store
	b.ReportAllocs()
	b.SetParallelism(8)
	var participants atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		d := participant.New(s.Participant(), participant.Options{})
		lease := strconv.FormatInt(participants.Add(1), 10)
		for pb.Next() {
			g, err := d.Acquire(ctx, request("deploy", lease))
			if err != nil {
				b.Error(err)
				return
			}
			if err := g.Release(ctx); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// TestMemoryPerLease keeps a store of many names small: at most 460 bytes for
// each lease, of the store and of its client; its name not counted.
func TestMemoryPerLease(t *testing.T) {
	const n, limit = 100_000, 460
	names := make([]string, n)
	grants := make([]*participant.Lease, n)
	for i := range names {
		names[i] = "customer/" + strconv.Itoa(i)
	}
	holder := &driver.Holder{Who: "test"}
	var s memlock.Store
	d := participant.New(s.Participant(), participant.Options{})
	before := heap()
	for i, name := range names {
		g, err := d.TryAcquire(context.Background(),
			&driver.Request{Name: name, Lease: name, TTL: time.Hour, Holder: holder})
		if err != nil {
			t.Fatal(err)
		}
		grants[i] = g
	}
	got := (heap() - before) / n
	t.Logf("%d bytes per lease", got)
	if got > limit {
		t.Errorf("%d bytes per lease, want at most %d", got, limit)
	}
	runtime.KeepAlive(grants)
	runtime.KeepAlive(d)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
