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

// mutant is one protection taken out of a source file, for the workers only.
type mutant struct {
	file     string // below the folder of the project
	old, new string // old is there once
	why      string
	store    string   // the topology on which it has to be found
	faults   []string // and what has to happen; anything, if it is empty
}

// forMutant returns on what store, with which faults, a mutant is to be found, unless others are asked for.
func (r *run) forMutant(store string, only []string) (string, []string) {
	m := mutants[r.mutant]
	if len(only) == 0 {
		only = m.faults
	}
	return cmp.Or(store, m.store), only
}

func mutantNames() []string { return slices.Sorted(maps.Keys(mutants)) }

// writeOverlay writes the mutated source into dir, and what go build -overlay reads.
func writeOverlay(name, dir string) (string, error) {
	m, ok := mutants[name]
	if !ok {
		return "", fmt.Errorf("there is no mutant %q; there are %v", name, mutantNames())
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/pawl-go/pawl").Output()
	if err != nil {
		return "", err
	}
	path := filepath.Join(strings.TrimSpace(string(out)), m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", fmt.Errorf("mutant %s: what it changes is %d times in %s", name, n, m.file)
	}
	mutated := filepath.Join(dir, "mutated"+filepath.Ext(path))
	if err := os.WriteFile(mutated, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
	if err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, b, 0o600)
}
