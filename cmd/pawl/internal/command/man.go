// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
)

// manCommand returns the command that writes the manual pages, for packages. It makes them from
// the help, so that there is one text to maintain.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages",
		Args:    cli.Args(1, 1, "try: pawl man ."),
		PreRunE: cli.NoStore,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			pages := []*cobra.Command{root}
			for _, c := range root.Commands() {
				if c.IsAvailableCommand() {
					pages = append(pages, c)
				}
			}
			for _, c := range pages {
				name := strings.ReplaceAll(c.CommandPath(), " ", "-")
				if err := os.WriteFile(filepath.Join(args[0], name+".1"), []byte(manPage(name, c, pages)), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func manPage(name string, c *cobra.Command, all []*cobra.Command) string {
	var help, b strings.Builder
	c.SetOut(&help)
	_ = c.Help() // it prints to a strings.Builder, which cannot fail
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"pawl\" \"User Commands\"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n",
		strings.ToUpper(name), roff(name), roff(strings.ToLower(c.Short[:1])+c.Short[1:]))
	b.WriteString(manSections(help.String()))
	b.WriteString(".SH SEE ALSO\n")
	var others []string
	for _, o := range all {
		if o != c {
			others = append(others, fmt.Sprintf(".BR %s (1)", roff(strings.ReplaceAll(o.CommandPath(), " ", "-"))))
		}
	}
	b.WriteString(strings.Join(others, ",\n") + "\n")
	return b.String()
}

// manSections makes each heading of the help a section. It keeps the layout of the other lines.
func manSections(help string) string {
	heading := regexp.MustCompile(`^([A-Z][A-Za-z ]+):$`)
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(help)) {
		line = strings.TrimSuffix(line, "\n")
		if m := heading.FindStringSubmatch(line); m != nil {
			fmt.Fprintf(&b, ".fi\n.SH %s\n.nf\n", strings.ToUpper(m[1]))
		} else {
			b.WriteString(roff(line) + "\n")
		}
	}
	return b.String() + ".fi\n"
}

// roff escapes text so that roff takes no part of it as a command.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
