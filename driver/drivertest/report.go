// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

const reportHead = `# What this store has and lacks; which tests of package drivertest it runs, and which
# it skips for want of what. Checked by the test; written by it with DRIVERTEST_UPDATE=1.
`

// beside are what a test may need beside guarantees: interfaces of a driver and of
// a grant, a renewal for longer than was asked for, and hooks of the harness.
var beside = []string{
	"Queuer", "Inspector", "Notifier", "Reserver", "Downgrader", "Adopter", "Recaller", "LongerTTL", "Crash", "Restart", "Cut",
}

// report collects which tests ran, and what the store has.
type report struct {
	mu      sync.Mutex
	missing map[string]string // by the name of the test
	has     map[string]bool   // by the name of what tests need
	changed []string          // of has: it was true once and false once
}

func (r *report) add(name, missing string, has map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.missing == nil {
		r.missing, r.has = make(map[string]string), make(map[string]bool)
	}
	r.missing[name] = missing
	for what, ok := range has {
		if before, known := r.has[what]; known && before != ok {
			r.changed = append(r.changed, what)
		}
		r.has[what] = ok
	}
}

// guarantees returns the names of the guarantees there are.
func guarantees() []string {
	var names []string
	for i, t := 0, reflect.TypeFor[driver.Guarantees](); i < t.NumField(); i++ {
		names = append(names, t.Field(i).Name)
	}
	return names
}

// String returns what the store has, and the tests in the order of Tests.
func (r *report) String() string {
	var b strings.Builder
	b.WriteString(reportHead)
	for _, what := range slices.Concat(guarantees(), beside) {
		switch ok, known := r.has[what]; {
		case !known:
		case ok:
			fmt.Fprintf(&b, "yes   %s\n", what)
		default:
			fmt.Fprintf(&b, "no    %s\n", what)
		}
	}
	for _, test := range Tests {
		switch missing, ok := r.missing[test.Name]; {
		case !ok:
		case missing == "":
			fmt.Fprintf(&b, "run   %s\n", test.Name)
		default:
			fmt.Fprintf(&b, "skip  %s (no %s)\n", test.Name, missing)
		}
	}
	return b.String()
}

// compare fails t unless the report is what the golden file says. A report that
// lacks tests, because of -run or because one of them failed early, says
// nothing.
func (r *report) compare(t testing.TB, golden string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.missing) < len(Tests) {
		return
	}
	if r.changed != nil {
		t.Errorf("what the store has must be the same in all tests; these changed: %q", r.changed)
	}
	got := r.String()
	if os.Getenv("DRIVERTEST_UPDATE") != "" {
		if err := errors.Join(os.MkdirAll(filepath.Dir(golden), 0o777),
			os.WriteFile(golden, []byte(got), 0o666)); err != nil {
			t.Error(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Errorf("%v: run the test with DRIVERTEST_UPDATE=1 and commit the file", err)
	case err != nil:
		t.Error(err)
	default:
		if d := diffLines(string(want), got); d != "" {
			t.Errorf("what the store has, and the tests that run and that are skipped, differ from %s:\n%s"+
				"if this is meant, run the test with DRIVERTEST_UPDATE=1", golden, d)
		}
	}
}

// diffLines returns the lines that only one of the two texts has. The order of
// lines is that of Tests in both, so it need not be compared.
func diffLines(want, got string) string {
	var b strings.Builder
	only := func(sign, these, those string) {
		for line := range strings.Lines(these) {
			if !strings.Contains(those, line) {
				fmt.Fprintf(&b, "%s %s", sign, line)
			}
		}
	}
	want = strings.ReplaceAll(want, "\r\n", "\n")
	only("-", want, got)
	only("+", got, want)
	return b.String()
}
