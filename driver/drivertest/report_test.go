// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"path/filepath"
	"strings"
	"testing"
)

// full returns the report of a run of all tests, of which those in skipped
// lacked something.
func full(skipped ...string) *report {
	r := new(report)
	for _, test := range Tests {
		r.add(test.Name, "", map[string]bool{"Expiry": len(skipped) == 0})
	}
	for _, name := range skipped {
		r.add(name, "Expiry", nil)
	}
	return r
}

func TestGolden(t *testing.T) {
	t.Setenv("DRIVERTEST_UPDATE", "")
	golden := filepath.Join(t.TempDir(), "testdata", "conformance.txt")
	compare := func(r *report) (bool, string) {
		failed, log := record(t, func(t testing.TB) { r.compare(t, golden) })
		return failed, strings.Join(log, "")
	}
	if failed, log := compare(full()); !failed || !strings.Contains(log, "DRIVERTEST_UPDATE=1") {
		t.Errorf("without a golden file: failed %v, %q; want it to say how to make one", failed, log)
	}

	t.Setenv("DRIVERTEST_UPDATE", "1")
	if failed, log := compare(full("renewal-extends")); failed {
		t.Fatalf("writing the golden file: %q", log)
	}
	t.Setenv("DRIVERTEST_UPDATE", "")

	if failed, log := compare(full("renewal-extends")); failed {
		t.Errorf("the same tests again: %q", log)
	}
	for _, r := range []*report{full("renewal-extends", "expiry-frees-the-name"), full()} {
		if failed, log := compare(r); !failed || !strings.Contains(log, "- run   expiry-frees-the-name") &&
			!strings.Contains(log, "+ run   renewal-extends") {
			t.Errorf("other tests skipped: failed %v, %q; want the difference", failed, log)
		}
	}

	fickle := full("renewal-extends")
	fickle.add("renewal-extends", "Expiry", map[string]bool{"Expiry": true})
	if failed, log := compare(fickle); !failed || !strings.Contains(log, `these changed: ["Expiry"]`) {
		t.Errorf("guarantees that change: failed %v, %q; want it to say which", failed, log)
	}

	partial := new(report)
	partial.add("renewal-extends", "", nil)
	if failed, log := compare(partial); failed {
		t.Errorf("a run of one test: %q; want no opinion", log)
	}
}
