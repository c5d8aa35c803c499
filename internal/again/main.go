// SPDX-License-Identifier: Apache-2.0

// Command again runs tests, and those that fail once more, alone:
//
//	go run ./internal/again FLAGS -- PACKAGES
//
// FLAGS are those of go test. Suites with real servers share two processors, and now and
// then a server answers later than a test bears. Such a failure is told at the end of make
// test, and is a bug, mostly of the test; but it does not stop a change. A test that says
// that something was late has to pass twice, one that says something else five times, and
// a package that took too long, or in which the race runtime has crashed, once. What speaks of two holders, a token, a leak, a panic or
// a data race has failed for good, and so has what fails again, and one of many that fail.
//
// It adds the tests that have passed the first time to .work/passed, by package and name, for internal/mutants.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// If more tests fail, the change is to blame, or the machine.
const most = 5

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "again:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	i := slices.Index(args, "--")
	if i < 0 || i == len(args)-1 {
		return errors.New("want flags of go test, --, and packages")
	}
	flags, packages := args[:i], args[i+1:]
	failed, passed, err := goTest(append(slices.Clone(flags), packages...), out)
	if err = errors.Join(err, note("passed", passed)); err != nil {
		return err
	}
	if len(failed) > most {
		return fmt.Errorf("%d tests failed; up to %d are run again", len(failed), most)
	}
	for _, t := range failed {
		if t.final != "" {
			return fmt.Errorf("%s is not run again: %s", t, t.final)
		}
	}
	for _, t := range failed {
		if err := alone(flags, t, out); err != nil {
			return err
		}
	}
	return nil
}

// alone runs what has failed again, and notes it if it passes.
func alone(flags []string, t test, out io.Writer) error {
	fmt.Fprintf(out, "again: %s, alone\n", t)
	args := append(slices.Clone(flags), "-timeout", "10m", fmt.Sprint("-count=", t.times), t.pkg)
	if t.name != "" {
		args = append(args, "-run", "^"+t.name+"$")
	}
	failed, _, err := goTest(args, out)
	if err == nil && len(failed) > 0 {
		err = fmt.Errorf("%s fails alone, too", t)
	}
	if err != nil {
		return err
	}
	// That is what make test prints at its end.
	return note("times", fmt.Sprintf("  flaky: %s failed, and passed alone, times: %d\n", t, t.times))
}

// note adds text to a file in .work.
func note(file, text string) error {
	if err := os.MkdirAll(".work", 0o777); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(".work", file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// goTest runs go test, and returns the tests that failed, and lines of those that passed. If
// anything else failed, as a build or a package without a test that did, it returns an error.
func goTest(args []string, out io.Writer) (failed []test, passed string, err error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	var lines strings.Builder
	failed, err = read(pipe, out, &lines)
	if err != nil {
		return nil, "", errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	if err := cmd.Wait(); err != nil && len(failed) == 0 {
		return nil, "", fmt.Errorf("go test: %w", err)
	}
	return failed, lines.String(), nil
}
