// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// binaries has the test binaries with the mutants: one for each package.
type binaries struct {
	overlay string
	build   *build
	number  map[*mutant]int
	tests   map[string][]string // by package: tests that must pass without a mutant
	mu      sync.Mutex
	made    map[string]func() (*binary, error) // by package
}

// binary is the test binary of a package.
type binary struct {
	file, dir string
	together  func() string // runs all tests in one process without a mutant, once
	mu        sync.Mutex
	passed    map[string]func() string // by test
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	folder = dir
	watchSources()
	if files := "PAWL_POSTGRES_FILES"; os.Getenv(files) == "" {
		os.Setenv(files, dir) // all processes share the files
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		flag.Set("test.parallel", "40") // most tests only wait: see starting
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// watchSources opens every directory, so that go test does not reuse a cached result when any file has
// changed: go test notes which files this process opens, but not which files the compiler reads.
func watchSources() {
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		return err
	})
}

// folder has the files that are built.
var folder string

// shared has the mutants of all tables. With several sets of switches, every package would be built several times.
var shared = sync.OnceValues(func() (*binaries, error) {
	all, err := everyMutant()
	if err != nil {
		return nil, err
	}
	b := &binaries{number: make(map[*mutant]int), tests: make(map[string][]string), made: make(map[string]func() (*binary, error))}
	for i, m := range all {
		b.number[m] = i + 1
	}
	if b.build, err = newBuild(folder, all); err == nil {
		b.overlay, err = b.build.overlay(folder)
	}
	return b, err
})

func prepare(t *testing.T) *binaries {
	t.Helper()
	b, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// of returns the binary of the mutant's package, and builds it on first use. The binary behaves
// without mutants unless it is asked to be one.
func (b *binaries) of(t *testing.T, m *mutant) *binary {
	t.Helper()
	if err := b.build.broken[m]; err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	made, ok := b.made[m.pkg]
	if !ok {
		out := filepath.Join(folder, strconv.Itoa(len(b.made))+".test")
		made = sync.OnceValues(func() (*binary, error) {
			if err := compile(b.overlay, out, m.pkg); err != nil {
				return nil, err
			}
			return newBinary(out, filepath.Join(root, filepath.FromSlash(m.pkg)), func() []string { return b.tests[m.pkg] }), nil
		})
		b.made[m.pkg] = made
	}
	b.mu.Unlock()
	bin, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// building lets one compiler run at a time, because a compiler uses all processors.
var building sync.Mutex

func compile(overlay, out, pkg string) error {
	building.Lock()
	defer building.Unlock()
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", out, "./"+pkg)
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, text)
	}
	return nil
}

// compiles compiles the mutated packages, without linking, and returns the compiler's messages.
func (b *binaries) compiles() error {
	var packages []string
	for m := range b.number {
		for _, e := range m.edits {
			if dir := "./" + path.Dir(e.file); strings.HasSuffix(e.file, ".go") && !slices.Contains(packages, dir) {
				packages = append(packages, dir)
			}
		}
	}
	cmd := exec.Command("go", append([]string{"list", "-export", "-f", "", "-overlay", b.overlay}, packages...)...)
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, text)
	}
	return nil
}

// newBinary returns a binary. Its tests run together without a mutant when passes is first called.
func newBinary(file, dir string, tests func() []string) *binary {
	b := &binary{file: file, dir: dir, passed: make(map[string]func() string)}
	b.together = sync.OnceValue(func() string { return b.all(tests()) })
	return b
}

// passes returns "" if a test passes without a mutant, and otherwise the test's output. If the test has
// not passed together with the others, passes runs it alone.
func (b *binary) passes(test string) string {
	b.mu.Lock()
	passed, ok := b.passed[test]
	if !ok {
		passed = sync.OnceValue(func() string {
			has := func(out string) bool { return strings.Contains(out, "--- PASS: "+test+" ") }
			if has(b.together()) {
				return ""
			}
			var r result
			for range 3 {
				r = b.run(test, 0)
				if !r.failed && has(r.out) {
					return ""
				}
			}
			return r.out + "(a test that is skipped or not there does not pass)"
		})
		b.passed[test] = passed
	}
	b.mu.Unlock()
	return passed()
}

// result is the result of a test.
type result struct {
	failed bool
	out    string
}

// limit is how long a test may take. A test that takes longer has not caught its mutant.
const limit = 5 * time.Minute

// starting limits how many tests begin at the same time. Most tests that catch a mutant wait
// for something that does not happen, which needs no processor. So after settled, a test
// makes room for the next. Tests with their own environment, such as the simulator's, keep
// the processors busy, and keep their place until they end.
var starting = make(chan struct{}, 12)

// settled is how long a test keeps its place in starting, unless it ends before.
const settled = 4 * time.Second

// run runs a test, or a subtest written as TEST/SUBTEST, with the mutant of the given number.
func (b *binary) run(test string, number int, env ...string) result {
	cmd := exec.Command(b.file, "-test.v", "-test.failfast", "-test.timeout="+limit.String(), "-test.run="+pattern(test))
	cmd.Dir, cmd.Env = b.dir, append(append(os.Environ(), env...), chosen+"="+strconv.Itoa(number))
	starting <- struct{}{}
	leave := sync.OnceFunc(func() { <-starting })
	defer leave()
	if len(env) == 0 {
		defer time.AfterFunc(settled, leave).Stop()
	}
	out, err := cmd.CombinedOutput()
	return result{err != nil, string(out)}
}

// atWork limits how many packages run their tests without a mutant at the same time. More would slow
// down the tests of mutants.
var atWork = make(chan struct{}, 3)

// all runs tests without a mutant in one process, and returns their output. In one process, tests can
// share servers, which take most of the time.
func (b *binary) all(tests []string) string {
	if len(tests) == 0 {
		return ""
	}
	var patterns []string
	for _, test := range tests {
		patterns = append(patterns, pattern(test))
	}
	atWork <- struct{}{}
	defer func() { <-atWork }()
	cmd := exec.Command(b.file, "-test.v", "-test.timeout=10m", "-test.run="+strings.Join(patterns, "|"))
	cmd.Dir = b.dir
	out, _ := cmd.CombinedOutput() // the caller looks in the output for tests that passed
	return string(out)
}

// pattern returns the argument of -test.run for a test, or for a subtest written as TEST/SUBTEST.
func pattern(test string) string { return "^" + strings.ReplaceAll(test, "/", "$/^") + "$" }
