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

// TestPattern: clients that implement Redlock with keys that our pattern makes exclude ours,
// and the other way round.
func TestPattern(t *testing.T) {
	t.Parallel()
	opts := patient()
	opts.Pattern = "lock:*"
	f := startFleet(t, 3, opts)
	d := openDriver(t, f.url(), opts)
	theirs := func(s *redis) bool { return s.do("set", "lock:"+name, "random", "nx", "px", "60000") == "OK" }
	req := long()
	req.Name = name
	for _, s := range f[:2] {
		if !theirs(s) {
			t.Fatal("SET NX fails")
		}
	}
	if _, err := d.TryAcquire(t.Context(), req); !errors.Is(err, driver.ErrHeld) || !strings.Contains(err.Error(), "another library") {
		t.Errorf("TryAcquire of what they have = %v; want ErrHeld, and that it is another library's", err)
	}
	if infos, err := d.List(t.Context(), ""); err != nil || len(infos) != 1 || infos[0].Name != name {
		t.Errorf("List = %v, %v; want %s", infos, err, name)
	}
	got := make(chan *grant)
	go func() {
		g, err := d.Acquire(t.Context(), req)
		if err != nil {
			t.Errorf("Acquire = %v", err)
		}
		got <- g
	}()
	for _, s := range f[:2] {
		if !eventually(patience, func() bool { return s.do("zcard", "pawl:redlock:{lock:"+name+"}:waiters") == "1" }) {
			t.Error("Acquire is not in the queue")
		}
	}
	for _, s := range f[:2] {
		s.do("del", "lock:"+name)
	}
	g := <-got
	if g == nil {
		return
	}
	n := 0
	for _, s := range f { // the last one freed may not be among ours
		if theirs(s) {
			n++
		}
	}
	if n > 1 {
		t.Errorf("%d nodes give them what we have", n)
	}
	release(t, g)
	reads := long()
	reads.Name, reads.Shared = name, true
	shared := get(t, d, reads)
	if !eventually(patience, func() bool { return f[0].do("exists", "lock:"+name) == "1" }) || theirs(f[0]) {
		t.Error("a node gives them what we share")
	}
	release(t, shared)
	if _, err := connect(t.Context(), f.url(), patient()); !errors.Is(err, driver.ErrDisagree) || !strings.Contains(err.Error(), "lock:*") {
		t.Errorf("a client without the pattern: %v; want ErrDisagree", err)
	}
	other, err := connect(t.Context(), f.url()+"?pattern=lock:*", patient())
	if err != nil {
		t.Fatalf("a client with the pattern in its URL: %v", err)
	}
	other.Close()
}

// TestPatternIsRecordedByWhoMayUseIt: a client that is refused, as two of three nodes have another pattern, has left its own at none.
func TestPatternIsRecordedByWhoMayUseIt(t *testing.T) {
	t.Parallel()
	f := make(fleet, 3)
	for i := range f {
		f[i] = startServer(t)
	}
	f[1].do("set", "pawl:redlock:pattern", "other:*")
	f[2].do("set", "pawl:redlock:pattern", "other:*")
	opts := patient()
	opts.Pattern = "lock:*"
	if _, err := connect(t.Context(), f.url(), opts); !errors.Is(err, driver.ErrDisagree) || !strings.Contains(err.Error(), "other:*") {
		t.Errorf("NewDriver = %v; want ErrDisagree", err)
	}
	for i, s := range f[:1] {
		if got := s.do("get", "pawl:redlock:pattern"); got != "" {
			t.Errorf("node %d has the pattern %q of a client that was refused", i, got)
		}
	}
}

// TestPatternOfOthersWhileAtWork: clients that were at work get no lease beside those with other
// keys, nor more time, and are told.
func TestPatternOfOthersWhileAtWork(t *testing.T) {
	t.Parallel()
	opts := patient()
	opts.Pattern = "lock:*"
	f := startFleet(t, 3, opts)
	d := openDriver(t, f.url(), opts)
	g := get(t, d, long())
	f[0].do("hset", "lock:hash", "uuid:1", "1")
	if infos, err := d.List(t.Context(), ""); err != nil || len(infos) != 1 && len(infos) != 2 {
		t.Errorf("List beside a key of another type = %v, %v", infos, err)
	}
	for _, s := range f {
		s.do("del", "pawl:redlock:epoch", "pawl:redlock:pattern")
	}
	f.bless(t, patient())
	if _, err := openDriver(t, f.url(), patient()).TryAcquire(t.Context(), long()); err != nil {
		t.Errorf("TryAcquire of a client without the pattern = %v", err)
	}
	if _, err := g.Renew(t.Context(), time.Minute); !errors.Is(err, driver.ErrDisagree) {
		t.Errorf("Renew = %v; want ErrDisagree", err)
	}
	other := long()
	other.Name, other.Lease = "other", "OTHER"
	if _, err := d.TryAcquire(t.Context(), other); !errors.Is(err, driver.ErrDisagree) {
		t.Errorf("TryAcquire = %v; want ErrDisagree", err)
	}
}
