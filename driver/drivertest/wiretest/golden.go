// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const reportHead = `# What this store promises and can do, and which hooks its test has; which checks of package wiretest
# it runs, and why it skips the others. Checked by the test; written by it with DRIVERTEST_UPDATE=1.
`

// report collects which checks ran, and what the store has.
type report struct {
	mu      sync.Mutex
	missing map[string]string // by the name of the check; "" if it ran
	failed  map[string]string // why, by the name of a check in Harness.Except
	has     map[string]bool
	changed []string // of has: it differed between checks
}

func (r *report) add(name, missing string, has map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.missing == nil {
		r.missing, r.has = make(map[string]string), maps.Clone(has)
	}
	r.missing[name] = missing
	for what, ok := range has {
		if r.has[what] != ok {
			r.changed = append(r.changed, what)
		}
	}
}

func (r *report) fail(name, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = make(map[string]string)
	}
	r.failed[name] = why
}

func (r *report) String() string {
	var b strings.Builder
	b.WriteString(reportHead)
	for _, what := range slices.Sorted(maps.Keys(r.has)) {
		fmt.Fprintf(&b, "%-5s %s\n", map[bool]string{true: "yes", false: "no"}[r.has[what]], what)
	}
	for _, c := range Checks {
		if why := r.failed[c.Name]; why != "" {
			fmt.Fprintf(&b, "fail  %s (%s)\n", c.Name, why)
		} else if missing := r.missing[c.Name]; missing != "" {
			fmt.Fprintf(&b, "skip  %s (it has %s)\n", c.Name, missing)
		} else {
			fmt.Fprintf(&b, "run   %s\n", c.Name)
		}
	}
	return b.String()
}

// compare fails t unless the report is what the golden file says. A report that lacks checks, because of
// -run or because one of them failed early, says nothing.
func (r *report) compare(t testing.TB, golden string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.missing)+len(r.failed) < len(Checks) {
		return
	}
	if r.changed != nil {
		t.Errorf("Caps is constant; these have changed: %q", r.changed)
	}
	got := r.String()
	if os.Getenv("DRIVERTEST_UPDATE") != "" {
		if err := errors.Join(os.MkdirAll(filepath.Dir(golden), 0o777), os.WriteFile(golden, []byte(got), 0o666)); err != nil {
			t.Error(err)
		}
		return
	}
	file, err := os.ReadFile(golden)
	if err != nil {
		t.Errorf("%v: run the test with DRIVERTEST_UPDATE=1 and commit the file", err)
		return
	}
	want := strings.ReplaceAll(string(file), "\r\n", "\n")
	for _, d := range []struct{ sign, in, notIn string }{{"-", want, got}, {"+", got, want}} {
		for line := range strings.Lines(d.in) {
			if !strings.Contains(d.notIn, line) {
				t.Errorf("what the store has and which checks it runs differ from %s; if this is meant, run the test with DRIVERTEST_UPDATE=1: %s %s", golden, d.sign, line)
			}
		}
	}
}
