// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// refusedSet checks that a client of these nodes is refused, by what it differs in.
func refusedSet(t testing.TB, f fleet, opts *Options, want ...string) {
	t.Helper()
	d := openDriver(t, f.url(), opts)
	_, err := d.TryAcquire(t.Context(), lasting("job", time.Second))
	if !errors.Is(err, driver.ErrDisagree) || errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("TryAcquire with %d nodes = %v; want ErrDisagree", len(f), err)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("TryAcquire = %v; want it to say %q", err, w)
		}
	}
	if _, err := d.Acquire(t.Context(), lasting("job", time.Second)); !errors.Is(err, driver.ErrDisagree) {
		t.Errorf("Acquire with %d nodes = %v; want ErrDisagree", len(f), err)
	}
}

// TestOtherSet: a client with other nodes or another quorum is refused, and the error
// names the difference, whichever client came first, also after a majority has
// restarted without its data.
func TestOtherSet(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 6, withMaxTTLOf(time.Second, 4))
	five := f[:5]
	a := openDriver(t, five.url(), withMaxTTL(time.Second))
	get(t, a, lasting("job", time.Second))
	refusedSet(t, f[:3], withMaxTTL(time.Second), f[3].Addr, f[4].Addr, "missing here")
	// A node outside the recorded set is part of no quorum.
	var log servers.Output
	opts := withMaxTTL(time.Second)
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	odd := openDriver(t, append(f[:4:4], f[5]).url(), opts)
	for range 10 {
		g, err := odd.TryAcquire(t.Context(), lasting("odd", time.Second))
		if err != nil {
			t.Fatalf("TryAcquire with four nodes of the set and a stranger = %v", err)
		}
		for _, a := range odd.Nodes(t.Context()) { // so that the stranger has had time to answer
			if a.Addr == f[5].Addr && (a.ID != "" || a.Set != "") {
				t.Fatalf("the stranger is node %q of %q", a.ID, a.Set)
			}
			if strange := errors.Is(a.Err, errStranger); strange != (a.Addr == f[5].Addr) {
				t.Errorf("%s: %v", a.Addr, a.Err)
			}
		}
		if left := f[5].left("pawl:"); len(left) > 1 { // the record that Bless has made
			t.Errorf("the stranger has %q", left)
		}
		g.Release(t.Context())
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, f[5].Addr) || !strings.Contains(text, "counts as down") {
		t.Errorf("the log says:\n%swant one line about the stranger", text)
	}
	refusedSet(t, five, withMaxTTLOf(time.Second, 4), "the quorum is 4 here, and 3 in the store")
	five[0].restart()
	five[1].restart()
	five[2].restart()
	refusedSet(t, f[2:5], withMaxTTL(time.Second), f[0].Addr, f[1].Addr, "missing here")
	if !eventually(patience, func() bool {
		g, err := openDriver(t, five.url(), withMaxTTL(time.Second)).TryAcquire(t.Context(), lasting("after", time.Second))
		if err == nil {
			g.Release(t.Context())
		}
		return err == nil
	}) {
		t.Error("a client with the right nodes gets nothing after the restart of three")
	}
}
