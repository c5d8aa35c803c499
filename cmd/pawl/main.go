// SPDX-License-Identifier: Apache-2.0

// Command pawl runs commands under a lock, and shows and breaks locks.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
)

func main() {
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs the command line and returns the exit code.
func execute(args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	if a.interrupted || a.keyboard {
		job.Interrupt(a.keyboard)
	}
	if err == nil {
		return a.code
	}
	f := asFailure(err)
	if !f.told {
		fmt.Fprintln(stderr, f.line())
	}
	return f.code
}
