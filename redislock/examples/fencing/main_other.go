// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "fencing: this system cannot stop a process with SIGSTOP: run it on Linux, in WSL, or on macOS")
	os.Exit(1)
}
