// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/command"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/filelock"
)

// measured is what bench prints.
type measured struct {
	Schema    int
	Store     string
	RoundTrip measuredPart  `json:"round_trip"`
	Rested    measuredPart  `json:"round_trip_rested"`
	Pair      measuredPart  `json:"acquire_release"`
	Many      measuredPart  `json:"acquire_release_64"`
	HandOff   measuredPart  `json:"hand_off"`
	Kept      *measuredPart `json:"acquire_release_kept"`
}

type measuredPart struct {
	Count      int
	PerSecond  float64 `json:"per_second"`
	P50        int64   `json:"p50_ns"`
	P99        int64   `json:"p99_ns"`
	RoundTrips float64 `json:"round_trips"`
}

func pawlBench(t *testing.T, want int, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := command.Execute(append([]string{"bench"}, args...), &stdout, &stderr); code != want {
		t.Fatalf("pawl bench %v: exit code %d, %s", args, code, &stderr)
	}
	return stdout.String() + stderr.String()
}

// TestBench: every part is measured, on files and on Redis, and nobody holds or waits
// for anything afterwards.
func TestBench(t *testing.T) {
	redis := "redis://" + startRedis(t)
	var out bytes.Buffer
	if code := command.Execute([]string{"bless", "--yes", "-s", redis}, &out, &out); code != 0 {
		t.Fatal(out.String())
	}
	for _, c := range []struct {
		store   string
		network bool
		says    []string
	}{
		{"file://" + t.TempDir(), false, []string{"There is no network in between: a lock costs", "look after a rest"}},
		{redis, true, []string{"A lock takes as long as ", "network round trips; it needs two.", "With KeepIdle a client takes", "the same, kept", "A hand-off costs ", "64 at a time are "}},
	} {
		var got measured
		if err := json.Unmarshal([]byte(pawlBench(t, 0, "-s", c.store, "--for", "200ms", "--json")), &got); err != nil {
			t.Fatal(err)
		}
		if got.Schema != report.Schema || got.Store != c.store {
			t.Errorf("%+v", got)
		}
		for name, p := range map[string]measuredPart{"round trip": got.RoundTrip, "rested": got.Rested, "pair": got.Pair, "many": got.Many, "hand-off": got.HandOff} {
			if p.Count < 1 || p.P50 <= 0 || p.P99 < p.P50 || p.PerSecond <= 0 || (p.RoundTrips > 0) != c.network {
				t.Errorf("%s, %s: %+v", c.store, name, p)
			}
		}
		if k := got.Kept; (k != nil) != c.network || k != nil && (k.P50 <= 0 || k.P50 > got.Pair.P50/2) {
			t.Errorf("%s, kept: %+v beside %+v", c.store, k, got.Pair)
		}
		text := pawlBench(t, 0, "-s", c.store, "--for", "50ms")
		for _, want := range append(c.says, "acquire and release", "64 at a time", "hand-off") {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", c.store, want, text)
			}
		}
		out.Reset()
		if code := command.Execute([]string{"ls", "-s", c.store}, &out, &out); code != 0 || out.Len() > 0 {
			t.Errorf("left behind in %s: %s", c.store, &out)
		}
	}
}

// TestBenchRefuses: mistakes say what to type, and two do not measure each other.
func TestBenchRefuses(t *testing.T) {
	if got := pawlBench(t, 64, "--for", "0s"); !strings.Contains(got, "use something like 2s") {
		t.Error(got)
	}
	if got := pawlBench(t, 64, "x"); !strings.Contains(got, "pawl bench --store") {
		t.Error(got)
	}
	dir := t.TempDir()
	locks, err := filelock.Open(dir, &filelock.Options{Options: pawl.Options{Holder: pawl.Holder{Who: "somebody"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	if _, err := locks.TryAcquire(t.Context(), "pawl-bench/running"); err != nil {
		t.Fatal(err)
	}
	if got := pawlBench(t, 75, "-s", "file:"+dir, "--for", "50ms"); !strings.Contains(got, "held by somebody") || !strings.Contains(got, "try again when") {
		t.Error(got)
	}
	if got := pawlBench(t, 69, "-s", "redis://127.0.0.1:1", "--for", "50ms"); strings.Contains(got, "A lock costs") {
		t.Error(got)
	}
}

// TestBenchInterrupted: a bench that is ended early gives back what it has, says
// nothing, and ends as a command does that a signal ends.
func TestBenchInterrupted(t *testing.T) {
	w := newWorld(t)
	holds := func() bool { // to try the lock would be in its way
		p := w.pawl("ls", "pawl-bench/")
		p.end(0)
		return p.stdout() != ""
	}
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: -2, syscall.SIGTERM: 143} {
		p := w.pawl("bench", "--for", "1m")
		w.until("it measures", func() bool { return holds() })
		p.signal(sig)
		p.end(code)
		if p.stdout()+p.stderr() != "" {
			t.Errorf("it says %q", p.stdout()+p.stderr())
		}
		if holds() {
			t.Error("it has kept its lock")
		}
	}
}
