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

// binaries are the test binaries with the mutants: one for each package.
type binaries struct {
	overlay string
	build   *build
	number  map[*mutant]int
	tests   map[string][]string // by package: they must pass without a mutant
	mu      sync.Mutex
	made    map[string]func() (*binary, error) // by package
}

// binary is the test binary of a package.
type binary struct {
	file, dir string
	together  func() string // runs all tests in one process without a mutant, once
	mu        sync.Mutex
	passed    map[string]func() string
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
		os.Setenv(files, dir) // made once for all processes
	}
	flag.Parse()
	parallel := 40 // most tests wait for what does not come: see starting
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "test.parallel" {
			parallel = f.Value.(flag.Getter).Get().(int)
		}
	})
	places = make(chan struct{}, max(parallel, 1))
	flag.Set("test.parallel", "10000") // places is the limit
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// watchSources opens every directory, so that go test does not answer from its cache once any file has
// changed: it knows what this process opens, but not what the compiler reads.
func watchSources() {
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		return err
	})
}

// folder is for what is built.
var folder string

// shared has the mutants of all tables, as every package would be built once more for each more set of switches.
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

// of returns the binary of the mutant's package, built on first use. Nothing is mutated
// in it unless it is asked for.
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

// building lets one compiler run at a time: it has use for all processors.
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

// compiles returns what the compiler says of the packages that are mutated. It links nothing.
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

// newBinary is for tests that run together when the first of them is asked for.
func newBinary(file, dir string, tests func() []string) *binary {
	b := &binary{file: file, dir: dir, passed: make(map[string]func() string)}
	b.together = sync.OnceValue(func() string { return b.all(tests()) })
	return b
}

// passes returns what a test printed that failed without a mutant, or "". One that has not
// passed among the others is run alone.
func (b *binary) passes(test string, env ...string) string {
	b.mu.Lock()
	key := strings.Join(append(env, test), " ")
	passed, ok := b.passed[key]
	if !ok {
		passed = sync.OnceValue(func() string {
			has := func(out string) bool { return strings.Contains(out, "--- PASS: "+test+" ") }
			if len(env) == 0 && has(b.together()) {
				return ""
			}
			var r result
			for range 3 {
				r = b.run(test, 0, env...)
				if !r.failed && has(r.out) {
					return ""
				}
			}
			return r.out + "(a test that is skipped or not there does not pass)"
		})
		b.passed[key] = passed
	}
	b.mu.Unlock()
	return passed()
}

// result is what became of a test.
type result struct {
	failed bool
	out    string
}

// limit is how long a test may take. What ends then was not caught.
const limit = 5 * time.Minute

// starting has a place for each test that has just begun. Most tests that catch a mutant wait
// for what does not come, and need no processor for it: they make room for the next one then.
// Those with an environment of their own, as the simulator's, compute, and stay.
var starting = make(chan struct{}, 12)

// settled is how long a test stays in its place, unless it ends before.
const settled = 4 * time.Second

// run runs a test, or a subtest given as TEST/SUBTEST, with the mutant of that number.
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

// atWork has a place for each package whose tests run without a mutant. If more ran at a time, the
// tests of mutants that begin meanwhile would be late.
var atWork = make(chan struct{}, 3)

// all runs tests without a mutant, and returns what they print. Most of what a test costs
// is its server, which many have in common then.
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
	out, _ := cmd.CombinedOutput() // whoever asks looks for a test that has passed
	return string(out)
}

// pattern is that of one test, or of a subtest given as TEST/SUBTEST.
func pattern(test string) string { return "^" + strings.ReplaceAll(test, "/", "$/^") + "$" }
