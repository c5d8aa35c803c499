// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestReadersAndWriters: a hundred readers come again and again, so that some have the
// lock at any time. A writer gets it within two times that readers have it: while it
// waits, each reader is granted the lock once at most, and none that has come after
// it is. Tokens and places in the queue are server time, so they tell.
func TestReadersAndWriters(t *testing.T) {
	t.Parallel()
	const readers, hold = 100, 300 * time.Millisecond
	r := blessedServer(t)
	stores := []*party{openLong(t, r), openLong(t, r), openLong(t, r), openLong(t, r)}
	ctx, stop := context.WithTimeout(t.Context(), 2*patience)
	defer stop()
	type turn struct {
		reader int
		came   int // how many writers had been seen in the queue
		token  uint64
	}
	var mu sync.Mutex
	var turns []turn
	seen := 0
	var all sync.WaitGroup
	for i := range readers {
		all.Go(func() {
			time.Sleep(time.Duration(i) * hold / readers)
			for ctx.Err() == nil {
				mu.Lock()
				came := seen
				mu.Unlock()
				g, err := stores[i%len(stores)].Acquire(ctx, reading(long("deploy")))
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("Acquire of a reader = %v", err)
				}
				if g == nil {
					return
				}
				mu.Lock()
				turns = append(turns, turn{i, came, g.Token()})
				mu.Unlock()
				time.Sleep(hold/2 + rand.N(hold))
				releaseAnyhow(t, g)
			}
		})
	}
	writer, look := openLong(t, r), openLong(t, r)
	var placed, granted []uint64 // in server time
	for len(placed) < 4 {
		time.Sleep(2 * hold)
		req := long("deploy")
		req.Why = "to write"
		done := make(chan *participant.Lease, 1)
		go func() {
			g, err := writer.Acquire(ctx, req)
			if err != nil {
				t.Errorf("Acquire of a writer = %v", err)
			}
			done <- g
		}()
		place := uint64(0)
		eventually(patience, func() bool {
			info, err := look.Inspect(ctx, "deploy")
			if err != nil {
				return false
			}
			if i := slices.IndexFunc(info.Waiters, func(w driver.Waiter) bool { return w.Why == req.Why }); i >= 0 {
				place = uint64(info.Waiters[i].Since.UnixMicro())
			}
			return place > 0 || len(done) > 0
		})
		if place > 0 {
			mu.Lock()
			seen++
			mu.Unlock()
		}
		g := <-done
		if g == nil {
			stop()
			all.Wait()
			t.FailNow()
		}
		if place > 0 { // else it had the lock before anybody could look
			placed, granted = append(placed, place), append(granted, g.Token())
		}
		release(t, g)
	}
	stop()
	all.Wait()
	for n := range placed {
		times := make(map[int]int)
		for _, turn := range turns {
			if turn.token < placed[n] || turn.token > granted[n] {
				continue
			}
			if times[turn.reader]++; times[turn.reader] > 1 {
				t.Errorf("reader %d was granted the lock %d times while a writer waited", turn.reader, times[turn.reader])
			}
			if turn.came > n {
				t.Errorf("reader %d came after a writer, and was granted the lock before it", turn.reader)
			}
		}
		t.Logf("a writer waited %v, and %d readers were granted the lock meanwhile", time.Duration(granted[n]-placed[n])*time.Microsecond, len(times))
	}
}

// TestDeadWriter: the first in the queue, a writer, has gone. The readers behind it need not
// wait until those who hold the lock have gone, too.
func TestDeadWriter(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	other := take(t, a, reading(long("deploy")))
	link := drivertest.NewLink(t, r.Addr)
	wait(t, r, openThrough(t, link, longOptions()).party, long("deploy"))
	w := wait(t, r, b, reading(long("deploy")))
	refusedBy(t, a, reading(long("deploy")), 1)
	link.Close()
	release(t, w.granted(patience))
	release(t, take(t, a, reading(long("deploy"))))
	release(t, other)
}
