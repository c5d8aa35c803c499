// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
)

// Everything that the help says can be read on a terminal of 80 columns.
func TestHelpFits(t *testing.T) {
	root := newRoot(new(cli.App))
	for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
		var help strings.Builder
		c.SetOut(&help)
		if err := c.Help(); err != nil || !strings.Contains(help.String(), "Usage:\n  pawl") {
			t.Errorf("%s: %v, %q", c.CommandPath(), err, &help)
		}
		for line := range strings.Lines(help.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > display.Width {
				t.Errorf("%s has a line of %d characters: %s", c.CommandPath(), n, line)
			}
		}
	}
}

// A command that works on some stores names no others.
func TestHelpOfStores(t *testing.T) {
	for name, stores := range map[string]string{"bless": "Redis, redlock or PostgreSQL", "max-ttl": "Redis, redlock or PostgreSQL", "nodes": "redlock"} {
		var help strings.Builder
		if code := Execute([]string{name, "--help"}, &help, &help); code != 0 || !strings.Contains(help.String(), "URL of a "+stores) || strings.Contains(help.String(), "directory of yours") {
			t.Errorf("%s: %d, %s", name, code, &help)
		}
	}
}

// What is typed instead is there.
func TestSuggestionsExist(t *testing.T) {
	root := newRoot(new(cli.App))
	for word, name := range otherCommands {
		if c, _, err := root.Find([]string{name}); err != nil || c == root {
			t.Errorf("%s: there is no %s", word, name)
		}
	}
}
