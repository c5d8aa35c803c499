// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	_ "embed"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

//go:embed testdata/trace.lua
var traceLua string

// tracedScripts are the scripts that clients run, whole, in others that write down each step.
func tracedScripts() []epoch.Script {
	all := slices.Clone(scripts)
	for i, name := range map[int]string{proposeScript: "propose", endScript: "end"} {
		all[i].Text = "local traced = '" + name + "'\nlocal function script()\n" + all[i].Text + "\nend\n" + traceLua
	}
	return all
}

// traced is what a script has written about one call.
type traced struct {
	Script  string
	At      int64 `json:",string"` // the server's clock, in microseconds
	Boot    string
	Args    []string
	Answers []int64
	Before  []tracedName
	After   []tracedName
	node    int
}

type tracedName struct {
	Key, Floor string
	Ended      bool // the lease that was asked for is among the ended ones
	Locks      []tracedLock
}

type tracedLock struct {
	Value  string
	Left   int64
	Shared bool
}

// tracer gathers what servers and clients have done. All are on one machine, so their clocks are one.
type tracer struct {
	fleet  fleet
	key    func(name string) string
	mu     sync.Mutex
	steps  []traced
	client []clientStep
	boots  map[int][]int64 // when servers were restarted
}

// clientStep is a decision of a client, at the time when it took effect.
type clientStep struct {
	what, key, id string // grant, extend, fail (to), share, let go
	at            int64
	token         uint64
	begun         int64 // of a renewal
	over          int64 // of what was granted or extended: until when it is trusted
	ttl           int64 // in ms
}

func wall() int64 { return time.Now().UnixMicro() }

// shift is how far the clock of instants is from that of the wall: the least of many readings, as this
// goroutine may have to wait between two of them.
var shift = sync.OnceValue(func() time.Duration {
	least := time.Duration(1<<63 - 1)
	for range 1000 {
		w, i := wall(), driver.Now()
		least = min(least, time.Duration(i)-time.Duration(w)*time.Microsecond)
	}
	return least
})

// wallOf is when an instant was.
func wallOf(i driver.Instant) int64 { return (time.Duration(i) - shift()).Microseconds() }

func (tr *tracer) did(s clientStep) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.client = append(tr.client, s)
}

// read takes the steps from the log of a server, which is lost when that starts again.
func (tr *tracer) read(t testing.TB, node int) {
	for line := range strings.Lines(tr.fleet[node].Output()) {
		_, text, ok := strings.Cut(line, " # traced ")
		if !ok {
			continue
		}
		s := traced{node: node}
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Errorf("%v in %s", err, text)
			return
		}
		tr.steps = append(tr.steps, s)
	}
}

// storeOf is a store whose servers and participants write down what they do. When the test ends that is
// held against the formulas.
func (tr *tracer) storeOf(t testing.TB, n int, opts *Options) drivertest.Store {
	f, s := storeOf(t, n, opts)
	tr.fleet, tr.boots = f, make(map[int][]int64)
	layout, err := opts.layout()
	if err != nil {
		t.Fatal(err)
	}
	tr.key = layout.Lock
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
			tr.boots[node] = append(tr.boots[node], wall())
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
		judgeAll(t, tr)
	})
	return s
}

// tracedDriver is a participant whose decisions are written down: before what lets go of a lease, and
// after what makes it rely on one.
type tracedDriver struct {
	*participant
	tr *tracer
}

func (d *tracedDriver) granted(req *driver.Request, g driver.Grant, err error) (driver.Grant, error) {
	if err != nil || g == nil {
		return g, err
	}
	over := g.Since().Add(req.TTL - driver.Drift(req.TTL))
	// The driver has looked at the clock: what comes between that and this is no step of it.
	d.tr.did(clientStep{what: "grant", key: d.tr.key(req.Name), id: req.Lease, token: g.Token(), ttl: epoch.Ceil(req.TTL),
		over: wallOf(over), at: min(wall(), wallOf(over)-1)})
	return &tracedGrant{Grant: g, d: d, name: req.Name, id: req.Lease, until: over}, nil
}

func (d *tracedDriver) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	g, err := d.Driver.TryAcquire(ctx, req)
	return d.granted(req, g, err)
}

func (d *tracedDriver) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	g, err := d.Driver.Acquire(ctx, req)
	return d.granted(req, g, err)
}

type tracedGrant struct {
	driver.Grant
	d        *tracedDriver
	name, id string
	mu       sync.Mutex
	until    driver.Instant
}

func (g *tracedGrant) did(what string) {
	g.d.tr.did(clientStep{what: what, key: g.d.tr.key(g.name), id: g.id, token: g.Token(), at: wall()})
}

func (g *tracedGrant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	s := clientStep{what: "extend", key: g.d.tr.key(g.name), id: g.id, token: g.Token(), begun: wall(), ttl: epoch.Ceil(ttl)}
	since, err := g.Grant.Renew(ctx, ttl)
	g.mu.Lock()
	defer g.mu.Unlock()
	s.at, s.over = wall(), s.begun+(ttl-driver.Drift(ttl)).Microseconds()
	if err == nil {
		over := since.Add(ttl - driver.Drift(ttl))
		s.over = wallOf(over)
		s.at = min(s.at, s.over-1, wallOf(g.until)-1)
		g.until = max(g.until, over)
	} else {
		s.what = "fail"
	}
	g.d.tr.did(s)
	return since, err
}

func (g *tracedGrant) Release(ctx context.Context) error {
	g.did("let go")
	return g.Grant.Release(ctx)
}

func (g *tracedGrant) Pass(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	g.did("let go")
	next, err := g.Grant.(driver.Passer).Pass(ctx, req)
	return g.d.granted(req, next, err)
}

func (g *tracedGrant) Downgrade(ctx context.Context) error {
	g.did("share")
	return g.Grant.(driver.Downgrader).Downgrade(ctx)
}

func (g *tracedGrant) OnLost(f func(error)) { g.Grant.(driver.Notifier).OnLost(f) }

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
