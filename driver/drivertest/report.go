// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const reportHead = `# Which tests of package drivertest this store runs, and which it skips for want
# of what. Checked by the test; written by it with DRIVERTEST_UPDATE=1.
`

// report collects which tests ran.
type report struct {
	mu      sync.Mutex
	missing map[string]string // by the name of the test
}

func (r *report) add(name, missing string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.missing == nil {
		r.missing = make(map[string]string)
	}
	r.missing[name] = missing
}

// String returns the report in the order of Tests.
func (r *report) String() string {
	var b strings.Builder
	b.WriteString(reportHead)
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
			t.Errorf("the tests that run and that are skipped differ from %s:\n%s"+
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
