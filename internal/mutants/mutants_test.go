// SPDX-License-Identifier: Apache-2.0

// Package mutants shows that the tests can fail. It removes each protection from the source, one at a
// time. Then a named test has to fail with the message in the mutant's table. Without the mutant, the same
// test must pass in the same binary. The tables are the files testdata/mutants.txt of the packages:
//
//	# FILE: NAME
//	- text that the file has exactly once, with any indentation
//	+ text that replaces it
//	! [PACKAGE] TEST: the beginning of the test's message, with * for any text
//
// A line "@ FILE" begins another change of the same mutant. A line that begins with "// " is a comment. A
// test in the table's own package needs no PACKAGE. Several lines with - or + may follow each other, and
// + may be left out.
//
//	go test ./internal/mutants                       all of them
//	go test ./internal/mutants -since main           those in files that have changed since main
//	go test ./internal/mutants -in pglock            those that tests of pglock have to catch
//	go test ./internal/mutants -in etcdlock -update  add the messages of the tests to the tables
//
// Run without a package name, in this directory, it prints a line for each mutant as it goes.
package mutants

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	update = flag.Bool("update", false, "add to the tables what the tests say")
	in     = flag.String("in", "", "only mutants that tests of this package catch")
	since  = flag.String("since", "", "only mutants of files, and tests in packages, that have changed since this commit")
)

func TestEveryMutantIsCaught(t *testing.T) {
	b := prepare(t)
	each(t, b.only(false), func(t *testing.T, m *mutant) func() {
		b.tests[m.pkg] = append(b.tests[m.pkg], m.test) // read after begin was called for all mutants
		return func() { b.mustCatch(t, m) }
	})
}

// 10,000 schedules of the simulator have to catch these mutants. Make schedules shows, with
// more schedules, that they pass without a mutant.
func TestSimulatorCatchesEveryMutant(t *testing.T) {
	b := prepare(t)
	each(t, b.only(true), func(t *testing.T, m *mutant) func() {
		return func() {
			if missed := m.missedBy(b.of(t, m).run(m.test, b.number[m], "SIM_SCHEDULES=10000", "GOMAXPROCS=1")); missed != "" {
				t.Fatalf("10,000 schedules did not notice: %s", missed)
			}
		}
	})
}

// only returns the mutants that the simulator has to catch, or the others.
func (b *binaries) only(simulated bool) (some []*mutant) {
	for _, m := range slices.SortedFunc(maps.Keys(b.number), func(m, n *mutant) int { return b.number[m] - b.number[n] }) {
		if (m.test == "TestNothingForbiddenHappens") == simulated {
			some = append(some, m)
		}
	}
	return some
}

// each marks t parallel and runs a subtest for each mutant that the flags select. It calls begin for
// all of them first, and then, for as many at a time as -parallel says, the functions that begin returned. Package testing
// takes them in no order, so expensive servers do not all start at the same time.
func each(t *testing.T, list []*mutant, begin func(*testing.T, *mutant) (look func())) {
	t.Parallel()
	for _, m := range list {
		if *in != "" && *in != m.pkg || !m.changed(t) {
			continue
		}
		progress.total.Add(1)
		t.Run(m.name, func(t *testing.T) {
			look := begin(t, m)
			t.Parallel()
			defer func(began time.Time) { progress.tell(t, m, time.Since(began)) }(time.Now())
			look()
		})
	}
}

// progress counts the mutants that have been tested.
var progress progressed

type progressed struct{ done, total atomic.Int32 }

// tell prints a line for a mutant. Package testing would print it only at the end, and would include
// the time that the mutant waited for its turn.
func (p *progressed) tell(t *testing.T, m *mutant, took time.Duration) {
	caught := "caught"
	if t.Failed() {
		caught = "MISSED"
	}
	fmt.Fprintf(os.Stderr, "mutants: %d of %d: %s in %.1fs: %s: %s\n", p.done.Add(1), p.total.Load(), caught, took.Seconds(), m.pkg, m.name)
}

// mustCatch runs the test of a mutant, without the mutant and with it.
func (b *binaries) mustCatch(t *testing.T, m *mutant) {
	t.Helper()
	bin, number := b.of(t, m), b.number[m]
	go bin.together() // at the same time as the mutants
	first := bin.run(m.test, number)
	if out := bin.passes(m.test); out != "" {
		t.Fatalf("%s fails without a mutant:\n%s", m.test, out)
	}
	missed := m.missedBy(first)
	if missed == "" {
		return
	}
	// A fault that needs two clients at the same time, or the kill of a process, shows in most
	// runs but not in all. A test that misses it in more than three of six more runs is no check.
	noticed, shown := 0, false
	for range 6 {
		if r := bin.run(m.test, number); r.failed {
			noticed++
			shown = shown || m.missedBy(r) == ""
		}
		if noticed == 3 {
			break
		}
	}
	if noticed < 3 {
		t.Fatalf("%s noticed in %d of 6 more runs:\n%s", m.test, noticed, missed)
	}
	if shown {
		return
	}
	// The speed of the machine may decide which assertion fails first. An assertion that the table
	// lacks counts if the test fails each time with the mutant, and never without it.
	var with result
	for range 3 {
		with = bin.run(m.test, number)
		without := bin.run(m.test, 0)
		if without.failed || !with.failed || len(assertions(with.out)) == 0 {
			t.Fatalf("%s did not notice:\n%s", m.test, missed)
		}
	}
	fmt.Fprintf(os.Stderr, "mutants: %s: if the assertion is the one that is meant, add:\n! %s: %s\n", m, m.test, asPattern(assertions(with.out)[0]))
}

// When the source changes, a mutant may no longer fit or compile. This test finds such mutants
// quickly.
func TestEveryMutantFits(t *testing.T) {
	b := prepare(t)
	for m, err := range b.build.broken {
		t.Errorf("%s: %v", m, err)
	}
	if err := b.compiles(); err != nil {
		t.Error(err)
	}
}

var changedFiles = sync.OnceValues(func() ([]string, error) {
	cmd := exec.Command("git", "diff", "--name-only", *since)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	return strings.Fields(string(out)), err
})

// changed reports whether the mutant or its test may have changed.
func (m *mutant) changed(t *testing.T) bool {
	if *since == "" {
		return true
	}
	files, err := changedFiles()
	if err != nil {
		t.Fatalf("git diff --name-only %s: %v", *since, err)
	}
	for _, f := range files {
		for _, e := range m.edits {
			if f == e.file {
				return true
			}
		}
		if strings.HasSuffix(f, "_test.go") && filepath.ToSlash(filepath.Dir(f)) == m.pkg {
			return true
		}
	}
	return false
}
