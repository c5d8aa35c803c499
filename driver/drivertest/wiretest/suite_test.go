// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// recorder is a testing.TB of which the failures are written down.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
	ends     []func()
}

func (r *recorder) Helper() {}

func (r *recorder) Cleanup(f func()) { r.ends = append(r.ends, f) }

func (r *recorder) Logf(string, ...any) {}

func (r *recorder) Error(args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprint(args...))
}

func (r *recorder) Errorf(format string, args ...any) { r.Error(fmt.Sprintf(format, args...)) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failures returns how a check fails on a store with a mistake, in fake time, and what keeps it from running.
func failures(t *testing.T, m *mistake, c Check) (missing string, failed []string) {
	synctest.Test(t, func(t *testing.T) {
		h := Harness{
			Bubble: func(*testing.T, func(*testing.T)) {},
			Start:  func(testing.TB) Service { return newBadService(m).service() },
		}
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			missing, _ = h.withDefaults().check(r, c)
		}()
		<-done
		for _, f := range slices.Backward(r.ends) {
			f()
		}
		failed = r.failures
	})
	return missing, failed
}

// TestMistakes plants mistakes in a store: each is found by the checks that name it. Each check finds one, and
// finds nothing in a store without a mistake.
func TestMistakes(t *testing.T) {
	can := make(map[string]bool)
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			for _, name := range m.found {
				i := slices.IndexFunc(Checks, func(c Check) bool { return c.Name == name })
				if i < 0 {
					t.Fatalf("there is no check %s", name)
				}
				if missing, failed := failures(t, m, Checks[i]); len(failed) == 0 {
					t.Errorf("%s does not find it; the store has %q", name, missing)
				} else {
					t.Logf("%s: %s", name, failed[0])
				}
				can[name] = true
			}
		})
	}
	for _, c := range Checks {
		missing, failed := failures(t, new(mistake), c)
		switch {
		case len(failed) > 0:
			t.Errorf("%s fails without a mistake: %q", c.Name, failed)
		case missing != "" && !strings.HasPrefix(c.Needs[len(c.Needs)-1], "no "):
			t.Errorf("%s does not run, as the store has %s", c.Name, missing)
		case !can[c.Name] && !t.Failed():
			t.Errorf("no mistake makes %s fail", c.Name)
		}
	}
}

// TestSlowMachine: all names are held at once, also on a machine that takes longer for that than a TTL.
func TestSlowMachine(t *testing.T) {
	slow := &mistake{ask: func(ctx context.Context, w *badWire, r *driver.Request) (driver.Answer, error) {
		time.Sleep(5 * time.Second)
		return w.Store.Ask(ctx, r)
	}}
	i := slices.IndexFunc(Checks, func(c Check) bool { return c.Name == "names-of-every-kind-are-apart" })
	if _, failed := failures(t, slow, Checks[i]); len(failed) > 0 {
		t.Errorf("%s fails as each request takes 5 s: %q", Checks[i].Name, failed)
	}
}

// TestNames checks that names of checks are unique, and that a check that restarts its service says so.
func TestNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range Checks {
		if seen[c.Name] || slices.Contains(c.Needs, "Restart") != strings.Contains(c.Name, "restart") {
			t.Errorf("%s: it is there twice, or needs %v", c.Name, c.Needs)
		}
		seen[c.Name] = true
	}
}
