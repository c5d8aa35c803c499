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

// What is typed instead is there.
func TestSuggestionsExist(t *testing.T) {
	root := newRoot(new(cli.App))
	for word, name := range otherCommands {
		if c, _, err := root.Find([]string{name}); err != nil || c == root {
			t.Errorf("%s: there is no %s", word, name)
		}
	}
}
