// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// binaries are the test binaries with the mutants: one for each package, and one for
// each mutant that no switch can hold.
type binaries struct {
	dir, overlay string
	build        *build
	mu           sync.Mutex
	made         map[string]func() (*binary, error)
}

// binary is the test binary of a package.
type binary struct {
	file, dir string
	mu        sync.Mutex
	passed    map[string]func() string
}

func newBinaries(t *testing.T, all []mutant) *binaries {
	t.Helper()
	dir := t.TempDir()
	b := &binaries{dir: dir, build: newBuild(t, dir, all), made: make(map[string]func() (*binary, error))}
	b.overlay = b.build.overlay(t, dir)
	return b
}

// with returns the binary that has the mutant, built on first use.
func (b *binaries) with(t *testing.T, number int, m mutant) *binary {
	t.Helper()
	if err := b.build.broken[number]; err != nil {
		t.Fatal(err)
	}
	if b.build.alone[number] {
		return b.binary(t, m.name, m.pkg, single(t, t.TempDir(), m))
	}
	return b.without(t, m)
}

// without returns the binary of the mutant's package, in which nothing is mutated
// unless it is asked for.
func (b *binaries) without(t *testing.T, m mutant) *binary {
	t.Helper()
	return b.binary(t, m.pkg, m.pkg, b.overlay)
}

func (b *binaries) binary(t *testing.T, key, pkg, overlay string) *binary {
	t.Helper()
	b.mu.Lock()
	made, ok := b.made[key]
	if !ok {
		out := filepath.Join(b.dir, strconv.Itoa(len(b.made))+".test")
		made = sync.OnceValues(func() (*binary, error) { return compile(overlay, out, pkg) })
		b.made[key] = made
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

func compile(overlay, out, pkg string) (*binary, error) {
	building.Lock()
	defer building.Unlock()
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", out, "./"+pkg)
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", cmd, err, text)
	}
	return &binary{file: out, dir: filepath.Join(root, filepath.FromSlash(pkg)), passed: make(map[string]func() string)}, nil
}

// passes runs a test without a mutant, once, and returns what it printed if it failed.
func (b *binary) passes(test string) string {
	b.mu.Lock()
	passed, ok := b.passed[test]
	if !ok {
		passed = sync.OnceValue(func() string {
			var r result
			for range 3 {
				r = b.run(test, 0)
				if !r.failed && strings.Contains(r.out, "--- PASS: "+test+" ") {
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

// result is what became of a test.
type result struct {
	failed bool
	out    string
}

// limit is how long a test may take. What ends then was not caught.
const limit = time.Minute

// run runs a test, or a subtest given as TEST/SUBTEST, with the mutant of that number.
func (b *binary) run(test string, number int, env ...string) result {
	cmd := exec.Command(b.file, "-test.v", "-test.timeout="+limit.String(), "-test.run=^"+strings.ReplaceAll(test, "/", "$/^")+"$")
	cmd.Dir, cmd.Env = b.dir, append(append(os.Environ(), env...), chosen+"="+strconv.Itoa(number))
	out, err := cmd.CombinedOutput()
	return result{err != nil, string(out)}
}
