// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestRefusedAmongMany: requests that the user has no right to are refused, and others
// at the same time are not.
func TestRefusedAmongMany(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	r.do("acl", "setuser", "app", "reset", "on", ">s3cret", "~pawl:epoch", "~pawl:check:*", "~pawl:token:*", "~pawl:{mine*", "&*", "+@all")
	s := open(t, "redis://app:s3cret@"+r.Addr, longOptions())
	for range 20 {
		var all sync.WaitGroup
		for i := range 32 {
			all.Go(func() {
				g, err := s.TryAcquire(t.Context(), long(fmt.Sprint("mine", i)))
				if err != nil {
					t.Errorf("TryAcquire = %v", err)
				} else if err := g.Release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
			})
			all.Go(func() {
				if _, err := s.TryAcquire(t.Context(), long(fmt.Sprint("theirs", i))); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "NOPERM") {
					t.Errorf("TryAcquire of a key without rights = %v; want NOPERM", err)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
	}
}

// TestRestartAmongMany: a server that has restarted has none of the scripts. All
// requests at once learn that, and get their locks.
//
// Once in some two hundred restarts the client takes what it heard of the new run for the
// last word of the old one, and closes a server that has been blessed already. That is safe, but
// nobody is granted anything then. More than one round of ten must not end so.
func TestRestartAmongMany(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s := openLong(t, r)
	var closed []int
	for round := range 10 {
		if round > 0 {
			r.restart()
			if err := Bless(t.Context(), r.url(), longOptions()); err != nil {
				t.Fatal(err)
			}
		}
		var all sync.WaitGroup
		var late atomic.Bool
		for i := range 64 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				_, err := s.Acquire(ctx, long(fmt.Sprint(round, "/", i)))
				if errors.Is(err, context.DeadlineExceeded) && round > 0 {
					late.Store(true)
				} else if err != nil {
					t.Errorf("Acquire = %v", err)
				}
			})
		}
		all.Wait()
		if late.Load() {
			closed = append(closed, round)
		}
	}
	if len(closed) > 1 {
		t.Errorf("after restarts %v nobody got a lock; want one of them at most", closed)
	}
}

// TestWithoutMemoryAmongMany: a server without memory grants none of the requests of a
// call, but accepts releases.
func TestWithoutMemoryAmongMany(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s, other := openLong(t, r), openLong(t, r)
	const n = 32
	var held [n]*participant.Lease
	for i := range held {
		held[i] = take(t, s, long(fmt.Sprint(i)))
	}
	waits := wait(t, r, other, long("7"))
	r.do("config", "set", "maxmemory", "1")
	var all sync.WaitGroup
	for i := range n {
		for _, req := range []*driver.Request{long(fmt.Sprint("free", i)), reading(long(fmt.Sprint("free", i)))} {
			all.Go(func() {
				g, err := s.TryAcquire(t.Context(), req)
				if g != nil || !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "OOM") {
					t.Errorf("TryAcquire = %v, %v; want OOM, and nothing to give back", g, err)
				}
			})
		}
	}
	all.Wait()
	for i, g := range held {
		all.Go(func() {
			if err := g.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
		})
		if key := lockKey(defaultPrefix, fmt.Sprint("free", i)); r.do("exists", key) != "0" {
			t.Errorf("%s is there", key)
		}
	}
	all.Wait()
	waits.granted(patience)
}
