// SPDX-License-Identifier: Apache-2.0

package command

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
)

// Every command has a manual page with all of its flags, and nothing in it is taken for
// a command of roff.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	if code := Execute([]string{"man", dir}, io.Discard, os.Stderr); code != 0 {
		t.Fatalf("pawl man ends with %d", code)
	}
	for page, wants := range map[string][]string{
		"pawl.1":      {".SH NAME\npawl \\- only one of me at a time\n", ".SH FLAGS", "redlock://h1,h2,h3", ".BR pawl\\-run (1)"},
		"pawl-run.1":  {`\-\-busy\-code`, `\-\-leftovers`, ".SH EXIT CODES", ".SH USAGE", ".BR pawl (1)"},
		"pawl-show.1": {`\-\-json`, ".SH GLOBAL FLAGS"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q:\n%s", page, want, text)
			}
		}
	}
	a := &cli.App{Stdout: io.Discard, Stderr: io.Discard}
	for _, c := range newRoot(a).Commands() {
		if _, err := os.Stat(filepath.Join(dir, "pawl-"+c.Name()+".1")); err != nil && c.IsAvailableCommand() {
			t.Errorf("%s has no page: %v", c.Name(), err)
		}
	}
}

func TestRoff(t *testing.T) {
	for text, want := range map[string]string{".so x": `\&.so x`, "'x": `\&'x`, `a\b --c`: `a\eb \-\-c`} {
		if got := roff(text); got != want {
			t.Errorf("roff(%q) is %q; want %q", text, got, want)
		}
	}
	if got, want := manSections("Text: no heading\n\nFlags:\n  -h\n"), "Text: no heading\n\n.fi\n.SH FLAGS\n.nf\n  \\-h\n.fi\n"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}
