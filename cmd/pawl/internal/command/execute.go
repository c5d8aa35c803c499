// SPDX-License-Identifier: Apache-2.0

// Package command builds the root command, the help and the manual pages.
package command

import (
	"context"
	"fmt"
	"io"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
)

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
