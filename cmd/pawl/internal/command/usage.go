// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
)

// wrapped returns a usage function that calls plain, cobra's own, and wraps the lines of the flags.
func wrapped(plain func(*cobra.Command) error) func(*cobra.Command) error {
	return func(cmd *cobra.Command) error {
		out := cmd.OutOrStderr()
		var b strings.Builder
		cmd.SetOut(&b)
		err := plain(cmd)
		cmd.SetOut(out)
		text := b.String()
		for _, fs := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
			text = strings.Replace(text, strings.TrimSpace(fs.FlagUsages()), strings.TrimSpace(fs.FlagUsagesWrapped(display.Width)), 1)
		}
		_, _ = fmt.Fprint(out, text)
		return err
	}
}

// help is what cobra's help command does. Unlike cobra's, it fails for an unknown command.
func help(cmd *cobra.Command, args []string) error {
	c, _, err := cmd.Root().Find(args)
	if err != nil {
		return unknownCommand(cmd.Root(), args[0])
	}
	c.InitDefaultHelpFlag()
	return c.Help()
}
