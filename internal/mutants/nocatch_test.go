// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatIsNoCatch: a test has not caught its mutant if it passes, takes too long, cannot
// start its server, or fails for another reason.
func TestWhatIsNoCatch(t *testing.T) {
	m := &mutant{says: []string{"the lease of * is trusted"}}
	for name, r := range map[string]result{
		"passed":           {false, "--- PASS: TestX (0.00s)"},
		"took too long":    {true, "panic: test timed out after 1m0s\n"},
		"no server":        {true, "    x_test.go:7: dial tcp 127.0.0.1:6379: connect: connection refused\n"},
		"another message":  {true, "    x_test.go:7: no grant\n"},
		"nothing was said": {true, "exit status 2\n"},
	} {
		if m.missedBy(r) == "" {
			t.Errorf("%s: counts as caught", name)
		}
	}
	caught := result{true, "=== RUN   TestX\n    x_test.go:9: the lease of 17 is trusted\n--- FAIL: TestX (0.01s)\n"}
	if missed := m.missedBy(caught); missed != "" {
		t.Errorf("not caught: %s", missed)
	}
}

// TestWhatPasses: a test passes without a mutant if it passes together with the others, or alone. A
// test that fails both times, or does not exist, does not pass.
func TestWhatPasses(t *testing.T) {
	dir := t.TempDir()
	script := `#!/bin/sh
echo "$@" >>runs
case "$*" in
*TestFirst*TestSecond*) echo "--- PASS: TestFirst (0.00s)"; echo "--- FAIL: TestSecond (0.00s)"; exit 1 ;;
*TestSecond*) echo "--- PASS: TestSecond (0.00s)" ;;
*TestThird*) echo "--- PASS: TestThird (0.00s)"; exit 1 ;;
esac
`
	file := filepath.Join(dir, "tests")
	if err := os.WriteFile(file, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	b := newBinary(file, dir, func() []string { return []string{"TestFirst", "TestSecond"} })
	for _, c := range []struct {
		test   string
		passes bool
		runs   int // so far
	}{
		{"TestFirst", true, 1},
		{"TestSecond", true, 2},
		{"TestSecond", true, 2},
		{"TestThird", false, 5},
		{"TestFourth", false, 8},
	} {
		if out := b.passes(c.test); (out == "") != c.passes {
			t.Errorf("%s: passes = %q; want that it passes: %v", c.test, out, c.passes)
		}
		if runs, err := os.ReadFile(filepath.Join(dir, "runs")); err != nil || strings.Count(string(runs), "\n") != c.runs {
			t.Errorf("after %s there were these runs, %v:\n%s", c.test, err, runs)
		}
	}
}
