// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// belief is a lease as its holder saw it. The clock is that of the machine, and so the
// same for all processes.
type belief struct {
	from, to driver.Instant
	token    uint64
	by       int // which process
}

// believe takes turns for as long as the process runs.
func (p *childProcess) believe() {
	for p.ctx.Err() == nil {
		l, err := p.c.Acquire(p.ctx, "deploy")
		if err != nil {
			continue
		}
		b := belief{from: driver.Now(), token: uint64(l.Token())}
		for end := b.from.Add(2 * time.Millisecond); l.Err() == nil && b.to < end; {
			b.to = driver.Now() // the look was after this, but it may have been long ago
			if l.Err() != nil {
				break
			}
			time.Sleep(time.Millisecond / 2)
		}
		_ = l.Release(context.Background())
		fmt.Fprintln(os.Stdout, "believed", int64(b.from), int64(b.to), b.token)
	}
}

// believers are processes that take turns, and the leases that they have trusted so
// far.
type believers struct {
	t    testing.TB
	all  []*child
	held []belief
}

func startBelievers(t testing.TB, n int, url string, ttl time.Duration) *believers {
	t.Helper()
	b := &believers{t: t}
	for range n {
		c := startChild(t, url, childTTLEnv+"="+ttl.String())
		b.all = append(b.all, c)
	}
	for _, c := range b.all {
		c.hear("ready")
		c.say("believe")
	}
	return b
}

// hear reads their output for d.
func (b *believers) hear(d time.Duration) {
	b.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		b.read()
	}
}

func (b *believers) read() {
	b.t.Helper()
	for i, c := range b.all {
		for len(c.lines) > 0 {
			line := <-c.lines
			h := belief{by: i}
			if _, err := fmt.Sscanf(line, "believed %d %d %d", &h.from, &h.to, &h.token); err != nil {
				b.t.Fatalf("a process says %q", line)
			}
			b.held = append(b.held, h)
		}
	}
}

// since waits until each of them has had the lock again after an instant, and returns
// how long that took.
func (b *believers) since(after driver.Instant, limit time.Duration) time.Duration {
	b.t.Helper()
	if !inTime(limit, func() bool {
		b.read()
		var again [16]bool
		n := 0
		for _, h := range b.held {
			if h.from > after && !again[h.by] {
				again[h.by] = true
				n++
			}
		}
		return n == len(b.all)
	}) {
		b.t.Errorf("not all of the waiters had the lock within %v", limit)
	}
	return driver.Now().Sub(after)
}

// check returns what is wrong with the leases that they have trusted.
func (b *believers) check() {
	b.t.Helper()
	slices.SortFunc(b.held, func(x, y belief) int { return int(x.from - y.from) })
	overlaps, again := 0, 0
	last, seen := belief{}, make(map[uint64]bool)
	for _, h := range b.held {
		if h.from <= last.to {
			overlaps++
		}
		if seen[h.token] {
			again++
		}
		seen[h.token] = true
		if h.to > last.to {
			last = h
		}
	}
	b.t.Logf("%d leases", len(b.held))
	if overlaps > 0 || again > 0 {
		b.t.Errorf("of %d leases %d were believed while another one was, and %d tokens were given again", len(b.held), overlaps, again)
	}
	if len(b.held) == 0 {
		b.t.Error("nobody ever had the lock")
	}
}
