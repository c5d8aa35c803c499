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
	d := dialFleet(t, f, opts)
	theirs := func(s *redis) bool { return s.do("set", "lock:"+name, "random", "nx", "px", "60000") == "OK" }
	req := long()
	req.Name = name
	for _, s := range f[:2] {
		if !theirs(s) {
			t.Fatal("SET NX fails")
		}
	}
	if _, err := d.TryAcquire(t.Context(), req); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("TryAcquire of what they have = %v; want ErrHeld", err)
	}
	if infos, err := d.List(t.Context(), ""); err != nil || len(infos) != 1 || infos[0].Name != name {
		t.Errorf("List = %v, %v; want %s", infos, err, name)
	}
	got := make(chan driver.Grant)
	go func() {
		g, err := d.Acquire(t.Context(), req)
		if err != nil {
			t.Errorf("Acquire = %v", err)
		}
		got <- g
	}()
	for _, s := range f[:2] {
		if !eventually(10*time.Second, func() bool { return s.do("scard", "pawl:{lock:"+name+"}:listeners") == "1" }) {
			t.Error("Acquire does not listen")
		}
		s.do("del", "lock:"+name)
	}
	g := <-got
	if g == nil {
		return
	}
	for i, s := range f {
		if theirs(s) {
			t.Errorf("node %d gives them what we have", i)
		}
	}
	if err := g.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
	if _, err := NewDriver(t.Context(), f.url(), patient()); !errors.Is(err, driver.ErrDisagree) || !strings.Contains(err.Error(), "lock:*") {
		t.Errorf("a client without the pattern: %v; want ErrDisagree", err)
	}
	other, err := NewDriver(t.Context(), f.url()+"?pattern=lock:*", patient())
	if err != nil {
		t.Fatalf("a client with the pattern in its URL: %v", err)
	}
	other.Close()
}
