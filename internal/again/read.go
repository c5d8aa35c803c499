// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// test is a test that failed. Of a subtest it is the test that has it. Without a name it is
// all of a package that took too long.
type test struct {
	pkg, name string
	final     string // the line for which it is not run again, or ""
	times     int    // how often it has to pass then
}

func (t test) String() string { return strings.TrimSpace(t.pkg + " " + t.name) }

// event is one of test2json. Of those of the build only Output is of use here.
type event struct {
	Action, Package, Test, Output string
}

// late finds what tests say that have waited in vain, which is the machine's fault mostly.
var late = regexp.MustCompile(`\.go:\d+: .*(?i:still waits|still so after|deadline exceeded|no answer|does not (come into|join) the queue|i/o timeout|unavailable|too busy|too late|connection refused)`)

// never finds what rules another run out.
var never = regexp.MustCompile(`DATA RACE|race detected|^panic:|^fatal error:|^SIG[A-Z]+|^signal: |\.go:\d+: .*(?i:overlap|\b(two|both|together|at a time|trusted|believed|twice|order|linearizable|holders|tokens?|stranded|leak|left|before|too early|let in|while)\b|late (write|renewal|release)|want (Err|\*?HeldError|no|none|nobody|nothing))`)

// read prints what go test says of packages and of tests that fail, and returns these. It writes
// those that pass to passed, with their subtests.
func read(events io.Reader, out, passed io.Writer) ([]test, error) {
	said := make(map[test][]string) // by test; lines of a package have no name
	raced := make(map[test]string)  // what the race detector said there
	var failed []test
	failures := make(map[string]int) // by package
	open := make(map[test]bool)      // those that run, with subtests
	var whole error
	d := json.NewDecoder(events)
	for {
		var e event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return failed, whole
		} else if err != nil {
			return nil, fmt.Errorf("output of go test -json: %w", err)
		}
		name, _, _ := strings.Cut(e.Test, "/")
		key := test{pkg: e.Package, name: name}
		if e.Test != "" {
			switch run := (test{pkg: e.Package, name: e.Test}); e.Action {
			case "run":
				open[run] = true
			case "pass", "fail", "skip":
				delete(open, run)
			}
		}
		if e.Action == "output" && strings.Contains(e.Output, "DATA RACE") {
			raced[key] = strings.TrimSpace(e.Output)
		}
		switch {
		case e.Action == "build-output":
			fmt.Fprint(out, e.Output)
		case e.Action == "output" && name == "":
			said[key] = append(said[key], e.Output)
			if e.Output != "PASS\n" {
				fmt.Fprint(out, e.Output)
			}
		case e.Action == "output":
			said[key] = append(said[key], e.Output)
		case e.Action == "fail" && e.Test != "" && e.Test == name:
			fmt.Fprint(out, strings.Join(said[key], ""))
			failures[e.Package]++
			failed = append(failed, test{e.Package, name, rules(said[key]), times(said[key])})
		case e.Action == "fail" && e.Test == "":
			// A test that is open has not ended: the package exited in the middle.
			lines, left := said[key], unfinished(open, e.Package)
			for _, name := range left {
				lines = append(lines, said[test{pkg: e.Package, name: name}]...)
				fmt.Fprint(out, strings.Join(said[test{pkg: e.Package, name: name}], ""))
			}
			switch line := rules(lines); {
			case line == "" && slices.ContainsFunc(lines, isSlow), raceCrashed(lines):
				failed = append(failed, test{pkg: e.Package, times: 1})
			case line != "" || failures[e.Package] == 0 || len(left) > 0:
				whole = cmp.Or(whole, fmt.Errorf("%s failed as a whole: %s", e.Package, line))
			}
		case e.Action == "pass":
			if e.Test != "" {
				fmt.Fprintln(passed, e.Package, e.Test)
			}
			// What the race detector says may be under any test that runs beside.
			if l := raced[key]; l != "" {
				fmt.Fprint(out, strings.Join(said[key], ""))
				whole = cmp.Or(whole, fmt.Errorf("%s: %s", e.Package, l))
			}
			if e.Test == name { // not of one subtest
				delete(said, key)
			}
		}
	}
}

// unfinished returns the tests of a package that have begun and not ended, without
// subtests.
func unfinished(open map[test]bool, pkg string) []string {
	var left []string
	for t := range open {
		if t.pkg == pkg && !strings.Contains(t.name, "/") {
			left = append(left, t.name)
		}
	}
	slices.Sort(left)
	return left
}

// isSlow finds what go test says of a package that took too long. Its stacks follow.
func isSlow(line string) bool { return strings.HasPrefix(line, "panic: test timed out") }

// raceCrashed reports whether the race runtime of Go has crashed, as 1.26.8's does now and then under hundreds
// of bubbles of fake time, and nothing else is wrong.
func raceCrashed(lines []string) bool {
	crash := slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "ThreadSanitizer: CHECK failed") }) ||
		slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "SIGSEGV") }) &&
			slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "runtime.(*timer).") })
	return crash && !slices.ContainsFunc(lines, func(l string) bool { return !isSignal(l) && rules([]string{l}) != "" })
}

func isSignal(line string) bool {
	return strings.HasPrefix(line, "fatal error: unexpected signal") || strings.HasPrefix(line, "SIGSEGV")
}

// times returns how often a test has to pass when it is run again.
func times(lines []string) int {
	if slices.ContainsFunc(lines, late.MatchString) {
		return 2
	}
	return 5
}

// rules returns the first line that rules another run out.
func rules(lines []string) string {
	for _, l := range lines {
		if never.MatchString(l) && !isSlow(l) {
			return strings.TrimSpace(l)
		}
	}
	return ""
}
