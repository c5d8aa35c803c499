// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/internal/steps"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// tracedScripts are the scripts that clients run, whole, in others that write down each step.
func tracedScripts() []epoch.Script {
	all := slices.Clone(scripts)
	for i, name := range map[int]string{proposeScript: "propose", endScript: "end"} {
		all[i].Text = steps.Traced(name, all[i].Text)
	}
	return all
}

// All changes of nodes in tests write down what nodes decide.
func init() {
	all := slices.Clone(changeScripts)
	all[len(scripts)].Text = steps.TracedDecide(decideLua)
	changeScripts = all
}

// tracer gathers what servers and clients have done.
type tracer struct {
	fleet fleet
	watch steps.Watch
	mu    sync.Mutex
	steps.Trace
}

func (tr *tracer) did(d steps.Decision) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.Decisions = append(tr.Decisions, d)
}

// read takes the steps from the log of a server, which is lost when that starts again.
func (tr *tracer) read(t testing.TB, node int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if err := tr.ReadLog(node, strings.NewReader(tr.fleet[node].Output())); err != nil {
		t.Error(err)
	}
}

// storeOf is a store whose servers and participants write down what they do. When the test ends that is
// held against the formulas.
func (tr *tracer) storeOf(t testing.TB, n int, opts *Options) drivertest.Store {
	f, s := storeOf(t, n, opts)
	tr.fleet, tr.Nodes = f, n
	layout, err := opts.layout()
	if err != nil {
		t.Fatal(err)
	}
	tr.watch.Key, tr.watch.Did = layout.Lock, tr.did
	own := *opts
	own.scripts = tracedScripts()
	crash, cut, heal := s.Crash, s.Cut, s.Heal
	s.Open = func(t testing.TB) driver.Driver { return &tracedDriver{openThrough(t, f, &own), tr} }
	s.Crash = func(t testing.TB, d driver.Driver) { crash(t, d.(*tracedDriver).participant) }
	s.Cut = func(t testing.TB, d driver.Driver) { cut(t, d.(*tracedDriver).participant) }
	s.Heal = func(t testing.TB, d driver.Driver) { heal(t, d.(*tracedDriver).participant) }
	s.Restart = func(t testing.TB) {
		for node, s := range f {
			s.kill()
			tr.read(t, node)
			tr.mu.Lock()
			tr.Losses = append(tr.Losses, steps.Loss{Node: node, At: steps.Wall()})
			tr.mu.Unlock()
			if err := s.Start(); err != nil {
				t.Error(err)
			}
		}
	}
	if slices.ContainsFunc(repeated, func(test string) bool { return strings.HasSuffix(t.Name(), "/"+test) }) {
		return s
	}
	t.Cleanup(func() {
		for node, s := range f {
			s.kill() // and its log is complete
			tr.read(t, node)
		}
		tr.mu.Lock()
		defer tr.mu.Unlock()
		n, wrong := tr.Check(formulas(t, "redlock"), nil)
		for _, err := range wrong {
			t.Error(err)
		}
		t.Logf("%d steps are those of the formulas", n)
	})
	return s
}

// tracedDriver is a participant whose decisions are written down.
type tracedDriver struct {
	*participant
	tr *tracer
}

func (d *tracedDriver) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	g, err := d.Driver.TryAcquire(ctx, req)
	return d.tr.watch.Granted(req, g, err)
}

func (d *tracedDriver) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	g, err := d.Driver.Acquire(ctx, req)
	return d.tr.watch.Granted(req, g, err)
}

// repeated are tests that lose the answer to an attempt that was granted, within the client, and ask again for
// the same lease. A client asks once: the formulas have no such step.
var repeated = []string{
	"repeated-attempt-is-harmless", "repeated-attempt-spares-another-holder", "repeated-attempt-of-a-reader-is-one-hold",
	"lost-answer-while-waiting-is-tried-again",
}

// TestStepsOfServers: each step of the scripts in servers, and of clients that run the conformance suite, is
// one of the formulas of spec/proof. It takes as long as the suite again: REDLOCK_STEPS=1 runs it.
func TestStepsOfServers(t *testing.T) {
	if os.Getenv("REDLOCK_STEPS") == "" {
		t.Skip("REDLOCK_STEPS is not set")
	}
	opts := &Options{NodeTimeout: time.Second}
	opts.MaxTTL, opts.TTL = suiteMaxTTL, suiteTTL
	drivertest.Run(t, suite(3, suiteMaxTTL, func(t testing.TB) drivertest.Store {
		return new(tracer).storeOf(t, 3, opts)
	}))
}
