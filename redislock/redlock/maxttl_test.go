// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

func withMaxTTL(ttl time.Duration) *Options {
	opts := new(Options)
	opts.MaxTTL, opts.NodeTimeout = ttl, time.Second
	return opts
}

func openDriver(t testing.TB, url string, opts *Options) *store {
	t.Helper()
	d, err := connect(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func lasting(name string, ttl time.Duration) *driver.Request {
	req := request()
	req.Name, req.TTL = name, ttl
	return req
}

// TestMaxTTLIsAgreed: a client that knows of less than the nodes have agreed on is refused, also
// if a majority of them has restarted empty and does not know that any more.
func TestMaxTTLIsAgreed(t *testing.T) {
	t.Parallel()
	const long, short = 5 * time.Second, time.Second
	f := startFleet(t, 5, withMaxTTL(long))
	a := openDriver(t, f.url(), withMaxTTL(long))
	if _, err := openDriver(t, f.url(), withMaxTTL(short)).TryAcquire(t.Context(), lasting("job", short)); !errors.Is(err, driver.ErrDisagree) ||
		errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "max_ttl=5s") {
		t.Errorf("TryAcquire with a MaxTTL of 1s = %v; want ErrDisagree", err)
	}
	if _, err := openDriver(t, f.url(), withMaxTTL(time.Hour)).TryAcquire(t.Context(), lasting("job", 2*long)); !errors.Is(err, driver.ErrDisagree) {
		t.Errorf("TryAcquire with a TTL of 10s = %v; want ErrDisagree", err)
	}
	get(t, a, lasting("job", long))
	for _, s := range f[:3] {
		s.restart()
	}
	b := openDriver(t, f.url(), withMaxTTL(short))
	info, err := b.Describe(t.Context())
	if err != nil || info.MaxTTL != long || info.Closed == 0 || !strings.Contains(info.Why, "3 of 5 nodes") {
		t.Errorf("Describe = %+v, %v; want it closed, with a MaxTTL of 5s", info, err)
	}
	deadline := time.Now().Add(2 * short)
	for time.Now().Before(deadline) {
		if _, err := b.TryAcquire(t.Context(), lasting("job", short)); !errors.Is(err, driver.ErrDisagree) {
			t.Fatalf("TryAcquire after the restart of three nodes = %v; want ErrDisagree", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestSetMaxTTL: nodes that were away when it was changed learn it from the clients.
func TestSetMaxTTL(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, withMaxTTL(time.Second))
	a := openDriver(t, f.url(), withMaxTTL(time.Minute))
	get(t, a, lasting("before", time.Second))
	f[2].stop()
	if err := SetMaxTTL(t.Context(), f.url(), 3*time.Second, withMaxTTL(0)); err == nil || !strings.Contains(err.Error(), f[2].Addr) {
		t.Errorf("SetMaxTTL with one node stopped = %v; want the node named", err)
	}
	f[2].cont()
	if !eventually(patience, func() bool {
		g, err := a.TryAcquire(t.Context(), lasting("after", 3*time.Second))
		if err == nil {
			g.Release(t.Context())
		}
		return err == nil && strings.Contains(f[2].do("get", "pawl:redlock:epoch"), " 3000 ")
	}) {
		t.Errorf("the node that was stopped has the record %q", f[2].do("get", "pawl:redlock:epoch"))
	}
}

func withMaxTTLOf(ttl time.Duration, quorum int) *Options {
	opts := withMaxTTL(ttl)
	opts.Quorum = quorum
	return opts
}
