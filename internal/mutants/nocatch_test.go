// SPDX-License-Identifier: Apache-2.0

package mutants

import "testing"

// TestWhatIsNoCatch: a test that passes, that takes too long, whose server does not
// start, or that fails for another reason has not caught its mutant.
func TestWhatIsNoCatch(t *testing.T) {
	s := &shows{want: map[string][]string{"m": {"the lease of * is trusted"}}}
	for name, r := range map[string]result{
		"passed":           {false, "--- PASS: TestX (0.00s)"},
		"took too long":    {true, "panic: test timed out after 1m0s\n"},
		"no server":        {true, "    x_test.go:7: dial tcp 127.0.0.1:6379: connect: connection refused\n"},
		"another message":  {true, "    x_test.go:7: no grant\n"},
		"nothing was said": {true, "exit status 2\n"},
	} {
		if s.by("m", r) == "" {
			t.Errorf("%s: counts as caught", name)
		}
	}
	caught := result{true, "=== RUN   TestX\n    x_test.go:9: the lease of 17 is trusted\n--- FAIL: TestX (0.01s)\n"}
	if missed := s.by("m", caught); missed != "" {
		t.Errorf("not caught: %s", missed)
	}
	s.want["other"] = []string{"no token"}
	if s.by("other", caught) == "" {
		t.Error("the assertion of one mutant counts for another")
	}
}
