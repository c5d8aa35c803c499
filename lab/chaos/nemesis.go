// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/lab/chaos/stage"
)

// happening is a fault that has happened, or happens now.
type happening struct {
	kind     string
	from, to int64 // by the boot clock; to is 0 while the fault lasts
	notes    string
}

// nemesis draws faults and lets them happen.
type nemesis struct {
	ttl   time.Duration
	out   *os.File
	alone *sync.RWMutex

	mu   sync.Mutex
	past []*happening
	errs []error
}

// rage lets one fault after the other happen until ctx ends, with pauses of at most gap.
func (n *nemesis) rage(ctx context.Context, r *rand.Rand, faults []stage.Fault, gap time.Duration) {
	var all []stage.Fault
	for _, f := range faults {
		for range max(f.Weight, 1) {
			all = append(all, f)
		}
	}
	for len(all) > 0 && ctx.Err() == nil {
		pause(ctx, time.Duration(r.Int64N(int64(gap))))
		if ctx.Err() == nil {
			n.strike(ctx, r, all[r.IntN(len(all))])
		}
	}
}

func (n *nemesis) strike(ctx context.Context, r *rand.Rand, f stage.Fault) {
	if f.Alone {
		n.alone.Lock()
		defer n.alone.Unlock()
	} else {
		n.alone.RLock()
		defer n.alone.RUnlock()
	}
	h := &happening{kind: f.Kind, from: now()}
	n.mu.Lock()
	n.past = append(n.past, h)
	n.mu.Unlock()
	fmt.Fprintf(n.out, "%d begins %s\n", h.from, f.Kind)
	err := f.Do(&stage.Act{Ctx: ctx, Rand: r, TTL: n.ttl, Note: func(format string, args ...any) {
		note := fmt.Sprintf(format, args...)
		fmt.Fprintf(n.out, "%d notes %s: %s\n", now(), f.Kind, note)
		n.mu.Lock()
		h.notes += " " + note
		n.mu.Unlock()
	}})
	n.mu.Lock()
	defer n.mu.Unlock()
	h.to = now()
	fmt.Fprintf(n.out, "%d ends %s\n", h.to, f.Kind)
	if err != nil {
		n.errs = append(n.errs, fmt.Errorf("%s: %w", f.Kind, err))
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// now returns the time of the boot clock, which the workers use too.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}
