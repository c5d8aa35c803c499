// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// clockProgram is the server whatever $PAWL_REDIS_SERVER says: others, such as
// Valkey, do not start with libfaketime.
const clockProgram = "redis-server"

// clockServer starts a server whose wall clock the test sets, by libfaketime.
func clockServer(t testing.TB, args ...string) (r *redis, set func(ahead time.Duration)) {
	t.Helper()
	r = newServer(t, args...)
	r.Program = clockProgram
	set = r.fakeClock()
	r.begin()
	return r, set
}

// fakeClock makes the server use a clock of its own from its next start on, which
// is ahead by what set was called with last.
func (r *redis) fakeClock() (set func(ahead time.Duration)) {
	t := r.t
	t.Helper()
	lib := func(pattern string) string {
		found, _ := filepath.Glob(pattern)
		if len(found) == 0 {
			t.Fatalf("%s is missing: apt-get install faketime", pattern)
		}
		return found[0]
	}
	file := filepath.Join(r.Dir, "ahead")
	set = func(ahead time.Duration) {
		t.Helper()
		text := fmt.Sprintf("%+d", ahead/time.Second)
		must(t, os.WriteFile(file+".new", []byte(text), 0o600))
		must(t, os.Rename(file+".new", file))
	}
	set(0)
	// The C library comes second so that its malloc replaces the server's own,
	// which asks for the time before libfaketime is ready.
	r.Env = []string{
		"LD_PRELOAD=" + lib("/usr/lib/*/faketime/libfaketime.so.1") + " " + lib("/lib/*/libc.so.6"),
		"FAKETIME_TIMESTAMP_FILE=" + file, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
	}
	return set
}

// steps is what an observer and a log were told.
type steps struct {
	log     servers.Output
	told    chan pawl.Event // of steps
	renewed atomic.Int32
}

// openClock opens a client whose leases have a short TTL and which tells steps.
func openClock(t *testing.T, url string) (*pawl.Client, *steps) {
	t.Helper()
	seen := &steps{told: make(chan pawl.Event, 100)}
	opts := &Options{MaxTTL: 2 * time.Hour}
	opts.TTL = clockTTL
	opts.Logger = slog.New(slog.NewTextHandler(&seen.log, nil))
	opts.Observer = pawl.Observer{
		Stepped: func(e pawl.Event) { seen.told <- e },
		Renewed: func(pawl.Event) { seen.renewed.Add(1) },
	}
	bless(t, url, opts)
	return openClient(t, url, opts), seen
}

const clockTTL = 3 * time.Second

func try(t *testing.T, c *pawl.Client, name string, opts ...pawl.Option) *pawl.Lease {
	t.Helper()
	l, err := c.TryAcquire(t.Context(), name, opts...)
	must(t, err)
	return l
}

// stepped checks that a step was told, once to each.
func (s *steps) stepped(t *testing.T, want time.Duration) {
	t.Helper()
	e := within(t, "the observer was not told of the step", s.told)
	if off := e.Step - want; off < -5*time.Second || off > 5*time.Second || e.Server == "" {
		t.Errorf("the observer was told of a step of %v of %q; want %v", e.Step, e.Server, want)
	}
	if !eventually(patience, func() bool { return strings.Count(s.log.String(), "a store's clock was set") == 1 }) {
		t.Errorf("the log says:\n%swant one line about the clock", s.log.String())
	}
}

// unmoved waits for some renewals, in which no step must be seen.
func (s *steps) unmoved(t *testing.T) {
	t.Helper()
	await(t, "nothing is renewed", func() bool { return s.renewed.Load() >= 4 })
	if len(s.told) > 0 || strings.Contains(s.log.String(), "clock") {
		t.Fatalf("a step was told before there was one: %s", s.log.String())
	}
}

// TestClockStepForward: the server's clock is set forward by an hour, as NTP may do
// after a boot. The leases that end by that are lost as soon as a renewal shows it,
// also those that are not due yet; those with more than an hour live on.
func TestClockStepForward(t *testing.T) {
	t.Parallel()
	r, set := clockServer(t)
	a, seen := openClock(t, r.url())
	b, _ := openClock(t, r.url())
	short, minute, long := try(t, a, "short", pawl.Shared()), try(t, a, "minute", pawl.TTL(time.Minute)), try(t, a, "long", pawl.TTL(2*time.Hour))
	seen.unmoved(t)
	set(time.Hour)
	for _, l := range []*pawl.Lease{short, minute} {
		within(t, l.Name()+" is trusted although the server has ended it", l.Done())
		if err := l.Err(); !errors.Is(err, pawl.ErrLost) || !strings.Contains(err.Error(), "clock was set forward") {
			t.Errorf("%s has ended with %v; want that the clock was set", l.Name(), err)
		}
	}
	seen.stepped(t, time.Hour)
	if err := long.Err(); err != nil {
		t.Errorf("a lease of two hours has ended by a step of one: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	next, err := b.Acquire(ctx, "short")
	must(t, err)
	if next.Token() <= short.Token() {
		t.Errorf("token %d after %d", next.Token(), short.Token())
	}
}
