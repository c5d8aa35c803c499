// SPDX-License-Identifier: Apache-2.0

// Command pawl runs commands under a lock, and shows and breaks locks.
package main

import (
	"os"

	"github.com/pawl-go/pawl/cmd/pawl/internal/command"
	_ "github.com/pawl-go/pawl/cmd/pawl/internal/fewfiles" // its init has to run before any that opens files
)

func main() {
	os.Exit(command.Execute(os.Args[1:], os.Stdout, os.Stderr))
}
