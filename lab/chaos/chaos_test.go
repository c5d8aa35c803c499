// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"testing"
	"time"

	"github.com/pawl-go/pawl/lab/chaos/check"
)

// brief is a run that is short enough for every day: it asserts that nobody had what another had,
// and that there were leases at all. How fast anything goes is not its business.
func brief(t *testing.T, program, store string) *run {
	t.Helper()
	r := &run{store: store, length: 6 * time.Second, seed: 1, workers: 3, lanes: 2, gap: time.Second, ttl: time.Second, maxTTL: 1500 * time.Millisecond,
		dir: t.TempDir(), idle: time.Hour, calm: time.Second, program: program}
	if err := r.do(t.Context()); err != nil {
		t.Fatal(err)
	}
	granted, _, _ := r.tally()
	t.Logf("%s: %d leases, %s", store, granted, r.kinds())
	if granted == 0 {
		t.Errorf("nobody got anything; refused: %v", r.result.Refused)
	}
	return r
}

// stores are those of the short run.
var stores = []string{"redis", "cluster", "redlock-3", "etcd", "directory"}

func TestShortRun(t *testing.T) {
	t.Parallel()
	b := &run{dir: t.TempDir()}
	if err := b.build(); err != nil {
		t.Fatal(err)
	}
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			for _, v := range brief(t, b.program, store).found {
				t.Errorf("%s: %s", v.Rule, v.Text)
			}
		})
	}
}

// A run must be able to fail: with a protection taken out of the clients two of them hold a lock.
func TestMutants(t *testing.T) {
	for name, m := range mutants {
		if _, err := writeOverlay(name, t.TempDir()); err != nil { // it can be applied
			t.Error(err)
		}
		for _, store := range m.stores {
			t.Run(name+"/"+store, func(t *testing.T) {
				length := 25 * time.Second
				if name == "flock" {
					length = 3 * time.Second
				} else if os.Getenv("CHAOS_MUTANTS") == "" {
					t.Skip("takes half a minute: CHAOS_MUTANTS=1")
				}
				r := &run{store: store, only: m.faults, mutant: name, length: length, seed: 1, workers: 4, lanes: 3, gap: 2 * time.Second,
					ttl: 2 * time.Second, maxTTL: 3 * time.Second, dir: t.TempDir(), idle: time.Hour, calm: time.Second}
				if err := r.do(t.Context()); err != nil {
					t.Fatal(err)
				}
				if r.broken()[check.TwoHolders] == 0 {
					t.Errorf("nobody noticed that %s", m.why)
				}
			})
		}
	}
}
