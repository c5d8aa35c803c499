// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

var allLoads = flag.Bool("loads", false, "TestLoadLosesNothing with 1 to 4,096 goroutines, TTLs of 3, 8 and 30 s, one processor and two")

// pressure is what one client does at once: goroutines that lock names of their own again and again, beside leases
// that it holds.
type pressure struct {
	goroutines int
	ttl        time.Duration
	procs      int
	warm       bool // the client has locked names before, one at a time
}

func (l pressure) String() string {
	return fmt.Sprintf("%d goroutines, TTL %v, %d processors, warm %t", l.goroutines, l.ttl, l.procs, l.warm)
}

func loads() (all []pressure) {
	if !*allLoads {
		return []pressure{{512, 8 * time.Second, 2, false}, {2048, 8 * time.Second, 1, true}}
	}
	for n := 1; n <= 4096; n *= 8 {
		for _, ttl := range []time.Duration{3 * time.Second, 8 * time.Second, 30 * time.Second} {
			for procs := 1; procs <= 2; procs++ {
				all = append(all, pressure{n, ttl, procs, false}, pressure{n, ttl, procs, true})
			}
		}
	}
	return all
}

// TestLoadLosesNothing: as long as the nodes answer, a client that does as much as it can loses no lease,
// and none of its calls fails.
func TestLoadLosesNothing(t *testing.T) {
	opts := &Options{}
	opts.MaxTTL = 30 * time.Second
	f := startFleet(t, 5, opts)
	for _, l := range loads() {
		t.Run(l.String(), func(t *testing.T) {
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
	late := lateness(f[0])
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
	stood := late()
	t.Logf("%d pairs, %d errors, %d of them lost, %d of %d held leases lost; a server took up to %v for a PING", done.Load(), failed.Load(), lost.Load(), gone, held, stood)
	if err := first.Load(); err != nil {
		t.Errorf("the first error: %v", *err)
	}
}

// lateness measures until it is called how long a server takes to answer somebody who asks for nothing.
func lateness(s *redis) (longest func() time.Duration) {
	stop, result := make(chan struct{}), make(chan time.Duration)
	go func() {
		most := time.Duration(0)
		for {
			began := time.Now()
			if _, err := s.Do("ping"); err == nil {
				most = max(most, time.Since(began))
			}
			select {
			case <-stop:
				result <- most
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() time.Duration { close(stop); return <-result }
}
