// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

func longReader() *driver.Request {
	req := long()
	req.Shared = true
	return req
}

// TestReadersBearAMinority: readers go on with two of five servers killed, and keep a
// writer out.
func TestReadersBearAMinority(t *testing.T) {
	t.Parallel()
	opts := patient()
	f := startFleet(t, 5, opts)
	d, other := dialFleet(t, f, opts), dialFleet(t, f, opts)
	first, err := d.TryAcquire(t.Context(), longReader())
	if err != nil {
		t.Fatal(err)
	}
	f[1].kill()
	second, err := other.TryAcquire(t.Context(), longReader())
	if err != nil {
		t.Fatal(err)
	}
	f[4].kill()
	for _, g := range []*grant{first, second} {
		if _, err := g.Renew(t.Context(), time.Minute); err != nil {
			t.Errorf("Renew = %v", err)
		}
		_, err := d.TryAcquire(t.Context(), long())
		var held *driver.HeldError
		if !errors.As(err, &held) || !held.Info.Holders[0].Shared || !strings.Contains(err.Error(), "shared") {
			t.Errorf("TryAcquire of a writer = %v; want that it is held by readers", err)
		}
		if err := g.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	}
	left := fleet{f[0], f[2], f[3]}
	left.clear(t)
	cycle(t, other)
	left.clear(t)
}

// TestExpiredReadersFreeTheKey: the key of readers is gone when the last of them has
// ended, also if one that would have lasted longer was released; so other libraries
// need not wait for it.
func TestExpiredReadersFreeTheKey(t *testing.T) {
	t.Parallel()
	opts := patient()
	f := startFleet(t, 3, opts)
	d := dialFleet(t, f, opts)
	brief := longReader()
	brief.TTL = time.Second
	if _, err := d.TryAcquire(t.Context(), brief); err != nil {
		t.Fatal(err)
	}
	g, err := d.TryAcquire(t.Context(), longReader())
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.clear(t)
}

// TestStreamOnServers: a hundred readers hold the name by turns, many of them at any
// time, and a writer gets it between them.
func TestStreamOnServers(t *testing.T) {
	t.Parallel()
	const hold = 200 * time.Millisecond
	opts := patient()
	f := startFleet(t, 3, opts)
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	defer wait.Wait() // nobody may report an error when the test has ended
	defer stop()
	for range 10 {
		d := dialFleet(t, f, opts)
		for range 10 {
			wait.Go(func() {
				for ctx.Err() == nil {
					g, err := d.Acquire(ctx, longReader())
					if err != nil {
						if ctx.Err() == nil {
							t.Errorf("Acquire of a reader = %v", err)
						}
						return
					}
					time.Sleep(hold)
					if err := g.Release(t.Context()); err != nil {
						t.Errorf("Release of a reader = %v", err)
					}
				}
			})
		}
	}
	d := dialFleet(t, f, opts)
	time.Sleep(2 * hold)
	for range 5 {
		began := time.Now()
		wctx, cancel := context.WithTimeout(t.Context(), patience)
		g, err := d.Acquire(wctx, long())
		cancel()
		if err != nil {
			t.Fatalf("Acquire of a writer = %v after %v", err, time.Since(began))
		}
		t.Logf("the writer had the name after %v; readers hold it for %v", time.Since(began), hold)
		if err := g.Release(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * hold)
	}
}
