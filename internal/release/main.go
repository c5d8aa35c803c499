// SPDX-License-Identifier: Apache-2.0

// Command release checks that our modules can be published, and makes a release.
//
//	go run ./internal/release check            publish to a folder, and use it as a stranger would
//	go run ./internal/release make v0.1.0      commit and tag; nothing is pushed
//	go run ./internal/release notes v0.1.0     print the section of CHANGELOG.md about a version
package main

import (
	"fmt"
	"os"
)

const usage = "usage: release check | make VERSION | notes VERSION"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	root, err := output("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "check":
		return check(root, os.Stdout)
	case len(args) == 2 && args[0] == "make":
		return release(root, args[1])
	case len(args) == 2 && args[0] == "notes":
		text, err := os.ReadFile(root + "/CHANGELOG.md")
		if err != nil {
			return err
		}
		section, err := section(string(text), args[1])
		fmt.Print(section)
		return err
	}
	return fmt.Errorf("%s", usage)
}
