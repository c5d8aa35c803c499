// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
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
	client1 := openDriver(t, f.url(), opts)
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
	client2 := openDriver(t, f.url(), opts)
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

// TestServersWithoutMemory: leases are extended and given back, and none is granted.
func TestServersWithoutMemory(t *testing.T) {
	t.Parallel()
	opts := patient()
	f := startFleet(t, 3, opts)
	d := openDriver(t, f.url(), opts)
	g := get(t, d, long())
	req := longReader()
	req.Name = "shared"
	r := get(t, d, req)
	time.Sleep(50 * time.Millisecond) // so that a look at the servers' role is due
	for _, s := range f {
		s.do("config", "set", "maxmemory", "1")
	}
	for _, g := range []*grant{g, r} {
		renew(t, g, time.Minute)
	}
	other := long()
	other.Name = "other"
	if _, err := d.TryAcquire(t.Context(), other); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "maxmemory") {
		t.Errorf("TryAcquire = %v; want ErrUnavailable and a word about maxmemory", err)
	}
	for _, g := range []*grant{g, r} {
		release(t, g)
	}
	f.clear(t)
}
