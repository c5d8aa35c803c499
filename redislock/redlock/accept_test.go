// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

func long() *driver.Request {
	req := request()
	req.TTL = time.Minute
	return req
}

// patient are options whose timeouts no busy machine exceeds.
func patient() *Options {
	opts := &Options{NodeTimeout: 5 * time.Second}
	opts.MaxTTL = time.Minute
	return opts
}

func dialFleet(t testing.TB, f fleet, opts *Options) *store {
	t.Helper()
	d, err := connect(context.Background(), f.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// has says whether the server has the lock of the name.
func (s *redis) has(name string) bool { return s.do("exists", "pawl:redlock:{"+name+"}") == "1" }

// clear checks that soon none of the servers has the lock.
func (f fleet) clear(t testing.TB) {
	t.Helper()
	for _, s := range f {
		if !eventually(patience, func() bool { return !s.has(name) }) {
			t.Errorf("%s still has the lock %s", s.Addr, s.do("get", "pawl:redlock:{"+name+"}"))
		}
	}
}

// cycle acquires, extends and releases, and returns how long each took.
func cycle(t testing.TB, d *store) (took [3]time.Duration) {
	t.Helper()
	ctx := t.Context()
	began := time.Now()
	lap := func(i int) { took[i] = time.Since(began); began = time.Now() }
	g, err := d.TryAcquire(ctx, long())
	lap(0)
	if err != nil {
		t.Fatalf("TryAcquire = %v", err)
	}
	_, err = g.Renew(ctx, time.Minute)
	lap(1)
	if err != nil {
		t.Errorf("Renew = %v", err)
	}
	err = g.Release(ctx)
	lap(2)
	if err != nil {
		t.Errorf("Release = %v", err)
	}
	return took
}

func medians(t testing.TB, d *store, n int) (m [3]time.Duration, longest time.Duration) {
	var all [3][]time.Duration
	for range n {
		for i, took := range cycle(t, d) {
			all[i] = append(all[i], took)
			longest = max(longest, took)
		}
	}
	for i := range m {
		slices.Sort(all[i])
		m[i] = all[i][n/2]
	}
	return m, longest
}

func TestTwoOfFiveKilled(t *testing.T) {
	t.Parallel()
	late := drivertest.Late(t)
	opts := patient()
	f := startFleet(t, 5, opts)
	d := dialFleet(t, f, opts)
	healthy, _ := medians(t, d, 100)
	f[0].kill()
	f[3].kill()
	crippled, longest := medians(t, d, 100)
	t.Logf("medians of acquire, extend and release: %v healthy, %v with two killed; at most %v", healthy, crippled, longest)
	if longest >= opts.NodeTimeout+late() {
		t.Errorf("one of them took %v: it has waited for the dead", longest)
	}
	fleet{f[1], f[2], f[4]}.clear(t)
}

func TestThreeOfFiveKilled(t *testing.T) {
	t.Parallel()
	late := drivertest.Late(t)
	opts := patient()
	f := startFleet(t, 5, opts)
	d := dialFleet(t, f, opts)
	g, err := d.TryAcquire(t.Context(), long())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range f[:3] {
		s.kill()
	}
	if _, err := g.Renew(t.Context(), time.Minute); err == nil || errors.Is(err, driver.ErrLost) {
		t.Errorf("Renew = %v; want an error that is not ErrLost", err)
	}
	g.Release(t.Context())
	fleet(f[3:]).clear(t)
	began := time.Now()
	_, err = d.TryAcquire(t.Context(), long())
	if took := time.Since(began); took > opts.NodeTimeout+time.Second+late() {
		t.Errorf("TryAcquire took %v; want an answer within the node timeout of %v", took, opts.NodeTimeout)
	}
	// The connections may just be going down, in which case it is not certain what
	// was sent on them.
	if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain) ||
		!strings.Contains(err.Error(), "of 5 nodes have not answered, and 3 have to") || !strings.Contains(err.Error(), f[0].Addr) {
		t.Errorf("TryAcquire = %v; want an error that says that 3 of 5 nodes are down, and which", err)
	}
	fleet(f[3:]).clear(t)
}

// TestCrashedNode is the story of the page on Redlock: client 1 holds A, B and C; C
// crashes and comes back empty; client 2 asks C, D and E. Where restarts go
// unnoticed there are two holders.
func TestCrashedNode(t *testing.T) {
	for i := range 4 {
		guarded, shared := i%2 == 0, i/2 == 1 // a reader, and then a writer
		t.Run(fmt.Sprintf("guarded=%t,shared=%t", guarded, shared), func(t *testing.T) {
			t.Parallel()
			crashedNode(t, guarded, shared)
		})
	}
}

func crashedNode(t *testing.T, guarded, shared bool) {
	opts := patient()
	opts.AllowUnguarded = !guarded
	opts.ConnectTimeout = 4 * opts.NodeTimeout // Open waits for a NodeTimeout, as two nodes stand still
	var args []string
	if !guarded { // so that clients cannot ask a server for its run
		args = []string{"--rename-command", "INFO", ""}
	}
	f := startFleet(t, 5, opts, args...)
	f[3].kill()
	f[4].kill()
	client1 := dialFleet(t, f, opts)
	var g *grant
	var err error
	for range 3 { // on a machine that stood still, none of the nodes has answered in time
		req := long()
		req.Shared = shared
		if g, err = client1.TryAcquire(t.Context(), req); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	f[2].restart()
	f[3].restart()
	f[4].restart()
	f[0].stop()
	f[1].stop()
	if guarded {
		fleet(f[3:]).oneByOne(t, opts)
	}
	client2 := dialFleet(t, f, opts)
	second, err := client2.TryAcquire(t.Context(), long())
	switch {
	case guarded && err == nil:
		t.Errorf("token %d while the lease with token %d is trusted", second.Token(), g.Token())
	case guarded:
		t.Logf("client 2: %v", err)
	case err != nil:
		t.Errorf("without a guard: %v; this test cannot fail", err)
	}
	f[0].cont()
	f[1].cont()
}

// oneByOne declares for each of the servers that it has forgotten nothing.
func (f fleet) oneByOne(t testing.TB, opts *Options) {
	t.Helper()
	single := *opts
	single.AllowSingle = true
	for i := range f {
		f[i:i+1].bless(t, &single)
	}
}

// TestStoppedNode: no call waits for a node that takes requests and does not answer,
// and nothing piles up.
func TestStoppedNode(t *testing.T) {
	// Not parallel: it counts goroutines.
	opts := patient()
	opts.NodeTimeout, opts.TTL = 2*time.Second, 4*time.Second // the connection is given up after a second
	f := startFleet(t, 3, opts)
	d := dialFleet(t, f, opts)
	cycle(t, d)
	before := runtime.NumGoroutine()
	f[2].stop()
	longest, most := time.Duration(0), 0
	late := 0
	for i := range 2000 {
		for _, took := range cycle(t, d) {
			longest = max(longest, took)
			if took >= opts.NodeTimeout {
				late++
			}
		}
		if i%50 == 0 {
			most = max(most, runtime.NumGoroutine()-before)
		}
	}
	// What was sent before the node was found to be silent ends with its connection.
	if !eventually(patience, func() bool { return runtime.NumGoroutine()-before < 100 }) {
		t.Errorf("%d goroutines more than before", runtime.NumGoroutine()-before)
	}
	t.Logf("the longest of 6,000 requests took %v; at most %d goroutines more", longest, most)
	if late > 0 {
		t.Errorf("%d requests took the node timeout", late)
	}
	if most > 2*maxBusy+100 { // two for each request, and those of other things
		t.Errorf("up to %d goroutines more than before", most)
	}
	f[2].cont()
	f.clear(t)
	if !eventually(patience, func() bool { return d.members[2].debtCount() == 0 }) {
		t.Error("endings are still owed")
	}
	cycle(t, d)
}

// TestCancelledLeavesNothing: however an acquisition is cut short, no node has the
// lock soon after, although its TTL is long.
func TestCancelledLeavesNothing(t *testing.T) {
	t.Parallel()
	opts := patient()
	f := startFleet(t, 3, opts)
	d := dialFleet(t, f, opts)
	cycle(t, d)
	cut, worst := 0, time.Duration(0)
	for i := range 150 {
		f[2].stop()
		if i%2 == 0 {
			f[1].stop()
		}
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(2*time.Millisecond))
		g, err := d.TryAcquire(ctx, long())
		cancel()
		f[1].cont()
		f[2].cont()
		began := time.Now()
		switch {
		case err == nil:
			if err := g.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
		case errors.Is(err, driver.ErrHeld): // what the one before has left is being undone
		case !errors.Is(err, context.DeadlineExceeded):
			t.Fatalf("TryAcquire = %v; want the context's error", err)
		default:
			cut++
		}
		if i%10 == 0 {
			f.clear(t)
			worst = max(worst, time.Since(began))
		}
	}
	f.clear(t)
	t.Logf("%d of 150 were cut short; all nodes were clear within %v, three calls of redis-cli included", cut, worst)
	if cut == 0 {
		t.Error("none was cut short")
	}
}

// TestServersWithoutMemory: leases are extended and given back, and none is granted.
func TestServersWithoutMemory(t *testing.T) {
	t.Parallel()
	opts := patient()
	f := startFleet(t, 3, opts)
	d := dialFleet(t, f, opts)
	g, err := d.TryAcquire(t.Context(), long())
	if err != nil {
		t.Fatal(err)
	}
	req := longReader()
	req.Name = "shared"
	r, err := d.TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // so that a look at the servers' role is due
	for _, s := range f {
		s.do("config", "set", "maxmemory", "1")
	}
	for _, g := range []*grant{g, r} {
		if _, err := g.Renew(t.Context(), time.Minute); err != nil {
			t.Errorf("Renew = %v", err)
		}
	}
	other := long()
	other.Name = "other"
	if _, err := d.TryAcquire(t.Context(), other); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "maxmemory") {
		t.Errorf("TryAcquire = %v; want ErrUnavailable and a word about maxmemory", err)
	}
	for _, g := range []*grant{g, r} {
		if err := g.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	}
	f.clear(t)
}
