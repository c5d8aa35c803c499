// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestReaderProcess: the process of one of two readers is killed, or stopped. The
// writer behind them gets the lock when the TTL of that reader is over, and not
// before; the reader that was stopped learns that its lease has gone.
func TestReaderProcess(t *testing.T) {
	t.Parallel()
	for how, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := blessedServer(t)
			a, b := openLong(t, r), openLong(t, r)
			reader := startChildren(t, 1, r.url())[0]
			reader.say("read %v", childTTL)
			var token uint64
			reader.hear("got %d", &token)
			other := take(t, a, reading(long("deploy")))
			w := wait(t, r, b, long("deploy"))
			reader.signal(signal)
			if signal == syscall.SIGKILL {
				reader.kill()
			} else {
				time.Sleep(50 * time.Millisecond) // it stops when it is scheduled
			}
			info, err := a.Inspect(t.Context(), "deploy")
			if err != nil || len(info.Holders) != 2 || info.Holders[0].Token != driver.Token(token) {
				t.Fatalf("Inspect = %+v, %v; want two readers", info, err)
			}
			release(t, other)
			g := w.granted(patience)
			if early := info.Holders[0].Expires.UnixMicro() - int64(g.Token()); early > 0 {
				t.Errorf("the writer had the lock %d µs before the reader's time was over", early)
			}
			if signal == syscall.SIGSTOP {
				reader.signal(syscall.SIGCONT)
				reader.say("release")
				select {
				case line := <-reader.lines:
					if !strings.Contains(line, "lease lost") {
						t.Errorf("the reader that was stopped says %q; want that the lease is lost", line)
					}
				case <-time.After(patience):
					t.Error("the reader that was stopped says nothing")
				}
			}
			release(t, g)
		})
	}
}

// TestDeadWriter: the first in the queue, a writer, has gone. The readers behind it need not
// wait until those who hold the lock have gone, too.
func TestDeadWriter(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	other := take(t, a, reading(long("deploy")))
	writer := startChildren(t, 1, r.url())[0]
	writer.say("acquire %v", childTTL)
	if !eventually(patience, func() bool { return queueLen(r, "deploy") == 1 }) {
		t.Fatal("the writer does not come to wait")
	}
	w := wait(t, r, b, reading(long("deploy")))
	refusedBy(t, a, reading(long("deploy")), 1)
	writer.kill()
	release(t, w.granted(patience))
	release(t, take(t, a, reading(long("deploy"))))
	release(t, other)
}

// TestFailoverOfReaders: a replica takes over from the master that readers have their leases
// from. They go on; a writer, and a reader, have to wait.
func TestFailoverOfReaders(t *testing.T) {
	t.Parallel()
	master := startServer(t, "--repl-diskless-sync-delay", "0")
	replica := startServer(t)
	follow(t, replica, master)
	const ttl = 6 * time.Second // for a busy machine
	opts := &Options{MaxTTL: ttl}
	opts.TTL = ttl
	if err := Bless(t.Context(), master.url(), opts); err != nil {
		t.Fatal(err)
	}
	lasting := func(name string) *driver.Request { req := request(name); req.TTL = ttl; return req }
	link := drivertest.NewLink(t, master.Addr)
	s := openThrough(t, link, opts)
	var readers []*participant.Lease
	for range 3 {
		readers = append(readers, take(t, s.party, reading(lasting("deploy"))))
	}
	readers = append(readers, lowered(t, take(t, s.party, lasting("other")), lasting("other")))
	if !eventually(patience, func() bool { return replica.do("zcard", lockKey(defaultPrefix, "other")) == "2" }) {
		t.Fatal("the replica lacks a lease")
	}
	master.kill()
	replica.do("replicaof", "no", "one")
	moved := driver.Now()
	link.Redirect(replica.Addr)
	for _, g := range readers {
		if !eventually(ttl/2, func() bool { _, err := g.Renew(t.Context(), ttl); return err == nil }) {
			t.Error("a reader cannot renew its lease at the new master")
		}
	}
	for _, req := range []*driver.Request{lasting("new"), reading(lasting("new")), reading(lasting("deploy"))} {
		if g, err := s.TryAcquire(t.Context(), req); err == nil && driver.Now().Sub(moved) < ttl {
			t.Errorf("%q was granted, with token %d, by a master that may have forgotten leases", req.Name, g.Token())
		}
	}
	for _, g := range readers {
		releaseAnyhow(t, g)
	}
	g, err := s.Acquire(t.Context(), lasting("deploy"))
	if err != nil {
		t.Fatalf("Acquire of a writer = %v; want a grant", err)
	}
	if d := driver.Now().Sub(moved); d < ttl-driver.Drift(ttl) {
		t.Errorf("a writer had the lock %v after the failover; want %v", d, ttl)
	}
	releaseAnyhow(t, g)
}

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
