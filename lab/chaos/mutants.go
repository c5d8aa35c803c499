// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// mutant describes how to remove a protection from the sources of the workers.
type mutant struct {
	why    string
	edits  []edit
	stores []string // the topologies on which chaos has to find it
	faults []string // the faults to cause; empty: all
}

// edit replaces old by new in a file of the project. old must occur once in the file.
type edit struct{ file, old, new string }

// forMutant returns the stores and the faults for the run of a mutant: those that the user asked for, or those of
// the mutant.
func (r *run) forMutant(store string, only []string) (string, []string) {
	m := mutants[r.mutant]
	if len(only) == 0 {
		only = m.faults
	}
	return cmp.Or(store, strings.Join(m.stores, ",")), only
}

func mutantNames() []string { return slices.Sorted(maps.Keys(mutants)) }

// writeOverlay writes the mutated sources into dir, and returns the file for go build -overlay.
func writeOverlay(name, dir string) (string, error) {
	m, ok := mutants[name]
	if !ok {
		return "", fmt.Errorf("there is no mutant %q; there are %v", name, mutantNames())
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/pawl-go/pawl").Output()
	if err != nil {
		return "", err
	}
	texts := make(map[string]string)
	for _, e := range m.edits {
		path := filepath.Join(strings.TrimSpace(string(out)), e.file)
		if texts[path] == "" {
			source, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			texts[path] = string(source)
		}
		if n := strings.Count(texts[path], e.old); n != 1 {
			return "", fmt.Errorf("mutant %s: %q is %d times in %s", name, e.old, n, e.file)
		}
		texts[path] = strings.Replace(texts[path], e.old, e.new, 1)
	}
	replace := make(map[string]string)
	for path, text := range texts {
		replace[path] = filepath.Join(dir, fmt.Sprintf("mutated%d%s", len(replace), filepath.Ext(path)))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	overlay := filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, b, 0o600)
}
