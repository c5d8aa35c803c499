// SPDX-License-Identifier: Apache-2.0

// Command pawl runs commands under a lock, and shows and breaks locks.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	_ "github.com/pawl-go/pawl/cmd/pawl/internal/fewfiles" // first
	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
)

func main() {
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs the command line and returns the exit code.
func execute(args []string, stdout, stderr io.Writer) int {
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

// unknownWord returns the word of the command line that should be a command and is none, or "".
func unknownWord(root *cobra.Command, args []string) string {
	if _, _, err := root.Find(args); err == nil {
		return ""
	}
	root.Flags().SetInterspersed(false)
	_ = root.ParseFlags(args) // up to that word
	return root.Flags().Arg(0)
}
