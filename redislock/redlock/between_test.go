// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// between begins a change from three nodes to three and goes on until only the set in between is accepted.
func between(t testing.TB, f fleet, opts *Options) *change {
	t.Helper()
	if _, err := ChangeNodes(t.Context(), f[:3].url(), fleet{f[0], f[1], f[3]}.url(), opts); err != nil {
		t.Fatal(err)
	}
	c := first(t, f, 0, 1, 3)
	if err := c.record(t.Context(), halts(c.old), epoch.Sets{OK: []epoch.Set{c.both}, From: c.old}); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFromBetween: leases of clients with the old set may last while only the set in between is accepted. So
// no change begins there, and one that has another old set, and would wait for its leases only, does not go on.
func TestFromBetween(t *testing.T) {
	t.Parallel()
	opts := withMaxTTL(changeTTL)
	f := startFour(t, opts)
	between(t, f, opts)
	for what, urls := range map[string][2]string{
		"begins with the set in between": {f.url() + "?quorum=3", fleet{f[0], f[1], f[3]}.url()},
		"has another old set":            {fleet{f[0], f[2], f[3]}.url(), fleet{f[0], f[1], f[3]}.url()},
	} {
		if step, err := ChangeNodes(t.Context(), urls[0], urls[1], opts); !errors.Is(err, ErrOtherChange) {
			t.Errorf("a change that %s = %+v, %v; want ErrOtherChange", what, step, err)
		}
	}
	// The way back has nothing to wait for: nobody was ever told of the new set.
	step, err := ChangeNodes(t.Context(), fleet{f[0], f[1], f[3]}.url(), f[:3].url(), opts)
	if err != nil || step.Last || len(step.Nodes) != 3 {
		t.Errorf("the way back = %+v, %v", step, err)
	}
	if !openFor(t, f[:3].url(), opts) {
		t.Error("a client of the old nodes gets nothing after that")
	}
}

// TestBetweenWithTwoDown: a majority of the old set is enough to go on, and one of the new set to end.
func TestBetweenWithTwoDown(t *testing.T) {
	t.Parallel()
	opts := withMaxTTL(changeTTL)
	f := startFour(t, opts)
	between(t, f, opts)
	f[2].kill()
	f[3].kill()
	to := fleet{f[0], f[1], f[3]}.url()
	for _, last := range []bool{false, true} {
		if step, err := ChangeNodes(t.Context(), f[:3].url(), to, opts); err != nil || step.Last != last {
			t.Fatalf("a step = %+v, %v", step, err)
		}
	}
	if !openFor(t, to, opts) {
		t.Error("a client of the new nodes gets nothing after that")
	}
}

// TestDeletedRecord: what a node has said is of the record that it had then.
func TestDeletedRecord(t *testing.T) {
	t.Parallel()
	opts := withMaxTTL(changeTTL)
	f := startFour(t, opts)
	between(t, f, opts)
	for _, r := range f {
		r.do("del", "pawl:epoch")
	}
	f[:3].bless(t, opts)
	if !openFor(t, f[:3].url(), opts) {
		t.Fatal("no grant after the records were deleted")
	}
	if step, err := ChangeNodes(t.Context(), f[:3].url(), fleet{f[0], f[1], f[3]}.url(), opts); err != nil || step.Quorum != 3 {
		t.Errorf("a change after that = %+v, %v", step, err)
	}
}

// TestBetweenIsToldBeforeTheWait: the leases of clients with the old set can only end once nodes refuse it.
func TestBetweenIsToldBeforeTheWait(t *testing.T) {
	t.Parallel()
	opts := withMaxTTL(3 * changeTTL)
	f := startFour(t, opts)
	from, to := f[:3].url(), fleet{f[0], f[1], f[3]}.url()
	if _, err := ChangeNodes(t.Context(), from, to, opts); err != nil {
		t.Fatal(err)
	}
	c := first(t, f, 0, 1, 3)
	next := epoch.Sets{Gen: c.now.Gen + 1, OK: []epoch.Set{c.both}, From: c.old}
	if err := c.decide(t.Context(), next); err != nil { // and its program crashes
		t.Fatal(err)
	}
	next.Self = f[3].Addr
	if err := c.nodes[f[3].Addr].server.Record(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := ChangeNodes(t.Context(), from, to, opts)
		done <- err
	}()
	for ; ; time.Sleep(10 * time.Millisecond) {
		if strings.Contains(f[0].do("get", "pawl:epoch"), "from=") && strings.Contains(f[1].do("get", "pawl:epoch"), "from=") {
			break
		}
		select {
		case err := <-done:
			t.Fatalf("the change has ended, and too few nodes had refused the old set before: %v", err)
		default:
		}
	}
	told := time.Now()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if d := time.Since(told); d < opts.MaxTTL/10 {
		t.Errorf("too few nodes had refused the old set until %v before the next step", d)
	}
}

// TestRestartedNodesDecide: nodes that have restarted with their data, and that no client has used since, take
// part again when MaxTTL is over.
func TestRestartedNodesDecide(t *testing.T) {
	t.Parallel()
	opts := withMaxTTL(changeTTL)
	f := startFour(t, opts)
	for _, r := range f[:2] {
		record := strings.Fields(r.do("get", "pawl:epoch"))
		record[1] = strings.Repeat("0", len(record[1])) // the run
		r.do("set", "pawl:epoch", strings.Join(record, " "))
	}
	var err error
	if !eventually(patience, func() bool {
		_, err = ChangeNodes(t.Context(), f[:3].url(), fleet{f[0], f[1], f[3]}.url(), opts)
		return err == nil
	}) {
		t.Errorf("the first step fails for ever: %v", err)
	}
}
