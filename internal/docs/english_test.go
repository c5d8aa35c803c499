// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestEnglishIsRead: internal/english.sh finds each of its patterns, across lines too, in
// every kind of file, and leaves alone what is right or quoted.
func TestEnglishIsRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it is a script for bash")
	}
	for _, s := range []struct {
		file, text string
		bad        bool
	}{
		{"x.go", "// Who waits is told.\npackage x\n", true},
		{"x.go", "// It is for\n// who comes late.\npackage x\n", true},
		{"x.go", "/*\nThis is no matter.\n*/\npackage x\n", true},
		{"x.go", "var s = \"who waits is told\" // nothing\npackage x\n", false},
		{"x.go", "// It says who waits, and who holds the name. Whoever waits is told.\npackage x\n", false},
		{"x.lua", "-- as who asks is told\n", true},
		{"x.md", "If it had not to wait, it is first.\n", true},
		{"x.md", "**Who gives up** runs it.\n", true},
		{"x.md", "Not \"who waits is told\", nor `for who`.\n", false},
		{"x.md", "Who holds it? A waiter that gives up leaves.\n", false},
		{"x.sh", "# What is no lease is not ok.\n", true},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, s.file), []byte(s.text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("bash", filepath.Join(root, "internal/english.sh"), dir).CombinedOutput()
		if found := err != nil && strings.Contains(string(out), "places to rewrite"); found != s.bad {
			t.Errorf("%q: found %v; want %v (%v)\n%s", s.text, found, s.bad, err, out)
		}
	}
}
