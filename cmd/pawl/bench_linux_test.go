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
		var got map[string]any
		if err := json.Unmarshal([]byte(pawlBench(t, 0, "-s", c.store, "--for", "200ms", "--json")), &got); err != nil {
			t.Fatal(err)
		}
		if got["schema"] != float64(report.Schema) || got["store"] != c.store {
			t.Errorf("%+v", got)
		}
		number := func(part, key string) float64 {
			p, _ := got[part].(map[string]any)
			n, _ := p[key].(float64)
			return n
		}
		for _, part := range []string{"round_trip", "round_trip_rested", "acquire_release", "acquire_release_64", "hand_off"} {
			if p50 := number(part, "p50_ns"); number(part, "count") < 1 || p50 <= 0 || number(part, "p99_ns") < p50 || number(part, "per_second") <= 0 || (number(part, "round_trips") > 0) != c.network {
				t.Errorf("%s, %s: %+v", c.store, part, got[part])
			}
		}
		if kept := number("acquire_release_kept", "p50_ns"); (kept > 0) != c.network || kept > number("acquire_release", "p50_ns")/2 {
			t.Errorf("%s: kept takes %v", c.store, kept)
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
