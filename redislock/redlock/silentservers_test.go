// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// lockAtLast returns a lease that all servers of f have. On a busy machine one may not answer
// within the node timeout: then the outcome is uncertain, or the lease is at a quorum only,
// and a release needs no answer of more servers than leave others a quorum.
func lockAtLast(t *testing.T, f fleet, locks *pawl.Client, name string) *pawl.Lease {
	t.Helper()
	for range 10 {
		lease, err := locks.Acquire(t.Context(), name)
		if err != nil {
			if !errors.Is(err, pawl.ErrUncertain) {
				t.Fatal(err)
			}
			continue
		}
		if !slices.ContainsFunc(f, func(s *redis) bool { return !s.has(name) }) {
			return lease
		}
		lease.Release(t.Context())
	}
	t.Fatal("no lease is at all servers")
	return nil
}

// TestServersFallSilent: servers that are stopped while a lease is held hold up its release
// and Close for no longer than one node timeout if they are a minority, and for
// no longer than one request may take, each time that it is made, if they are not.
func TestServersFallSilent(t *testing.T) {
	t.Parallel()
	const nodeTimeout = 2 * time.Second
	quick := false
	for try := 0; try < 5 && !quick; try++ { // a busy machine may take a little longer
		took := endWithSilent(t, 1, nodeTimeout, nodeTimeout)
		quick = took < nodeTimeout+nodeTimeout/4
	}
	if !quick {
		t.Errorf("with one stopped: Release and Close never took %v only: they wait for it twice", nodeTimeout)
	}
	endWithSilent(t, 2, nodeTimeout, nodeTimeout+3*endTimeout) // Release, the same again in the background, and once more in Close
}

// endWithSilent stops so many of three servers while a lease is held, and returns how long Release and Close take
// then, which may be little more than limit.
func endWithSilent(t *testing.T, stopped int, nodeTimeout, limit time.Duration) (took time.Duration) {
	t.Helper()
	late := drivertest.Late(t)
	opts := &Options{NodeTimeout: nodeTimeout}
	f := startFleet(t, 3, opts)
	locks, err := Open(t.Context(), f.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	lease := lockAtLast(t, f, locks, name)
	for _, r := range f[:stopped] {
		r.stop()
	}
	began := time.Now()
	err = lease.Release(t.Context())
	locks.Close()
	if took = time.Since(began); took > limit+nodeTimeout*3/4+late() || (err == nil) != (stopped == 1) {
		t.Errorf("with %d stopped: Release = %v, and with Close it took %v; want %v at most", stopped, err, took, limit)
	}
	for _, r := range f[:stopped] {
		r.cont()
	}
	if !eventually(20*time.Second, func() bool { // the requests to end the lease were sent: it would last for 30
		d := openDriver(t, f.url(), opts)
		g, err := d.TryAcquire(t.Context(), lasting(name, time.Second))
		if err == nil {
			g.Release(t.Context())
		}
		return err == nil
	}) {
		t.Errorf("with %d stopped: the name is not free", stopped)
	}
	return took
}
