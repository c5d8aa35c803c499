// SPDX-License-Identifier: Apache-2.0

// Package mutants shows that the tests can fail: each protection is taken out
// of the source, one at a time, and a named test must notice.
package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

type mutant struct {
	name     string
	file     string // below the root
	old, new string // old must occur exactly once
	pkg      string // below the root
	test     string // the test that must fail
	also     []edit // what else has to be changed
}

// edit replaces what must occur exactly once.
type edit struct{ file, old, new string }

func TestEveryMutantIsCaught(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			overlay := m.overlay(t)
			missed := m.run(t, overlay)
			if missed == "" {
				return
			}
			// What two clients do at once, or a process that is killed, shows a fault in most
			// runs. A test that misses it again is no check.
			for range 2 {
				if again := m.run(t, overlay); again != "" {
					t.Fatalf("%s did not notice, twice: %s\n%s", m.test, missed, again)
				}
			}
		})
	}
}

// run runs the test with the mutated files, and returns what it printed if it did not
// notice.
func (m mutant) run(t *testing.T, overlay string) (missed string) {
	t.Helper()
	cmd := exec.Command("go", "test", "-vet=off", "-overlay", overlay, "-count=1", "-timeout=60s",
		"-run", "^"+strings.ReplaceAll(m.test, "/", "$/^")+"$", "./"+m.pkg)
	cmd.Dir = root(t)
	out, err := cmd.CombinedOutput()
	top, _, _ := strings.Cut(m.test, "/")
	if err != nil && (strings.Contains(string(out), "--- FAIL: "+top) || strings.Contains(string(out), "test timed out")) {
		return ""
	}
	return fmt.Sprintf("%v: %s", err, out)
}

// overlay writes the mutated files and the list that puts them in place.
func (m mutant) overlay(t *testing.T) string {
	t.Helper()
	dir, sources := t.TempDir(), make(map[string]string)
	for _, e := range append([]edit{{m.file, m.old, m.new}}, m.also...) {
		original := filepath.Join(root(t), filepath.FromSlash(e.file))
		source, ok := sources[original]
		if !ok {
			data, err := os.ReadFile(original)
			if err != nil {
				t.Fatal(err)
			}
			source = string(data)
		}
		if n := strings.Count(source, e.old); n != 1 {
			t.Fatalf("%s has %d times %q, want once", e.file, n, e.old)
		}
		sources[original] = strings.Replace(source, e.old, e.new, 1)
	}
	replace := make(map[string]string)
	for original, source := range sources {
		mutated := filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		if err := os.WriteFile(mutated, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[original] = mutated
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
