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
