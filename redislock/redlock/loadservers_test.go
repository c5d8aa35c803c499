// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// pressure is what one client does at once: goroutines that lock names of their own again and again, beside leases
// that it holds.
type pressure struct {
	goroutines int
	ttl        time.Duration
	procs      int
	warm       bool // the client has locked names before, one at a time
}

// TestLoadLosesNothing: as long as the nodes answer, a client that does as much as it can loses no lease,
// and none of its calls fails.
func TestLoadLosesNothing(t *testing.T) {
	opts := &Options{}
	opts.MaxTTL = 30 * time.Second
	f := startFleet(t, 5, opts)
	for _, l := range []pressure{{512, 8 * time.Second, 2, false}, {2048, 8 * time.Second, 1, true}} {
		t.Run(fmt.Sprint(l.goroutines, " goroutines"), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(l.procs))
			l.run(t, f)
		})
	}
}

func (l pressure) run(t *testing.T, f fleet) {
	opts := &Options{}
	opts.MaxTTL, opts.TTL = 30*time.Second, l.ttl
	locks, err := Open(t.Context(), f.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	for i := range 200 {
		if !l.warm {
			break
		}
		if err := locks.Do(t.Context(), fmt.Sprint("warm-", i), func(context.Context, *pawl.Lease) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	const held = 100
	leases := make([]*pawl.Lease, held)
	var begin sync.WaitGroup
	for i := range leases {
		begin.Go(func() {
			var err error
			if leases[i], err = locks.Acquire(t.Context(), fmt.Sprint("held-", i)); err != nil {
				t.Errorf("Acquire = %v", err)
			}
		})
	}
	begin.Wait()
	if t.Failed() {
		return
	}
	var done, failed, lost atomic.Int64
	var first atomic.Pointer[error]
	note := func(err error) {
		failed.Add(1)
		first.CompareAndSwap(nil, &err)
	}
	end := time.Now().Add(max(5*time.Second, l.ttl+time.Second))
	var work sync.WaitGroup
	for i := range l.goroutines {
		work.Go(func() {
			for time.Now().Before(end) && t.Context().Err() == nil {
				lease, err := locks.Acquire(t.Context(), fmt.Sprint("own-", i))
				if err == nil {
					done.Add(1)
					err = lease.Release(t.Context())
				}
				if err != nil {
					note(err)
					if errors.Is(err, pawl.ErrLost) {
						lost.Add(1)
					}
				}
			}
		})
	}
	work.Wait()
	gone := 0
	for _, lease := range leases {
		if err := lease.Err(); err != nil {
			gone++
			note(err)
		}
		lease.Release(t.Context())
	}
	t.Logf("%d pairs, %d errors, %d of them lost, %d of %d held leases lost", done.Load(), failed.Load(), lost.Load(), gone, held)
	if err := first.Load(); err != nil {
		t.Errorf("the first error: %v", *err)
	}
}
