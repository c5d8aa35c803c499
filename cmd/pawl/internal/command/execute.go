// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
	"github.com/pawl-go/pawl/driver/storekit"
)

// otherCommands maps commands of other tools to the commands of pawl.
var otherCommands = map[string]string{
	"list": "ls", "status": "show", "info": "show", "unlock": "break", "extend": "renew", "refresh": "renew", "lock": "run", "exec": "run", "cron": "once", "lease": "acquire",
	"events": "watch", "follow": "watch", "monitor": "top", "htop": "top",
}

// unknownCommand returns the failure for an unknown command.
func unknownCommand(root *cobra.Command, word string) *exit.Failure {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	hint := "try: pawl --help"
	if meant := storekit.Nearest(word, names, otherCommands); meant != "" {
		hint = "did you mean pawl " + meant + "? " + hint
	}
	return exit.Usage(fmt.Sprintf("unknown command %q for \"pawl\"", display.Shorten(word, 40)), hint)
}

// unknownWord returns the word in the place of the command if it names no command, and else "".
func unknownWord(root *cobra.Command, args []string) string {
	if _, _, err := root.Find(args); err == nil {
		return ""
	}
	root.Flags().SetInterspersed(false)
	_ = root.ParseFlags(args) // up to that word
	return root.Flags().Arg(0)
}

// Execute runs the command line and returns the exit code.
func Execute(args []string, stdout, stderr io.Writer) int {
	a := &cli.App{Stdout: stdout, Stderr: stderr}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	if a.Interrupted || a.Keyboard {
		job.Interrupt(a.Keyboard)
	}
	if err == nil {
		return a.Code
	}
	f := exit.As(err)
	if word := unknownWord(root, args); word != "" {
		f = unknownCommand(root, word)
	}
	if !f.Told {
		fmt.Fprintln(stderr, f.Line())
	}
	return f.Code
}
