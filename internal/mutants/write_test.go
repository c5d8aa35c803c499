// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// choice is code that is added to each package with mutants.
const choice = `package %s

import (
	"os"
	"strconv"
	"strings"
)

var mutant__, _ = strconv.Atoi(os.Getenv("` + chosen + `"))

func mutantPick__[T any](number int, mutated, original T) T {
	if mutant__ == number {
		return mutated
	}
	return original
}

type mutantPatch__ struct {
	number   int
	old, new string
}

func mutantText__(text string, patches []mutantPatch__) string {
	for _, p := range patches {
		if mutant__ == p.number {
			text = strings.Replace(text, p.old, p.new, 1)
		}
	}
	return text
}
`

// write puts the files with their switches into dir, and into the overlay.
func (b *build) write(dir string) error {
	for _, file := range slices.Sorted(maps.Keys(b.files)) {
		s := b.files[file]
		if s.ast == nil || s.edits == nil && s.tail.Len() == 0 && len(s.picks) == 0 {
			continue
		}
		if err := b.put(dir, file, s.switched()); err != nil {
			return err
		}
		beside := path.Join(path.Dir(file), "mutant__.go")
		if b.replace[filepath.Join(root, beside)] == "" {
			if err := b.put(dir, beside, fmt.Sprintf(choice, s.ast.Name.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// switched returns the text of the file with the mutants in it.
func (s *source) switched() string {
	changes := s.edits
	for f, cases := range s.cases {
		// The addition stays on one line, so that messages name the usual line numbers.
		at := s.offset(f.Body.Lbrace) + 1
		changes = append(changes, change{at, at, "switch mutant__ { " + strings.Join(cases, "; ") + " }; "})
		params, _ := s.fields(f.Type.Params)
		changes = append(changes, change{s.offset(f.Type.Params.Opening) + 1, s.offset(f.Type.Params.Closing), params})
		if f.Recv != nil {
			recv, _ := s.fields(f.Recv)
			changes = append(changes, change{s.offset(f.Recv.Opening) + 1, s.offset(f.Recv.Closing), recv})
		}
	}
	for v, picks := range s.picks {
		from, to := s.offset(v.Pos()), s.offset(v.End())
		changes = append(changes, change{from, from, strings.Join(picks, "")}, change{to, to, strings.Repeat(")", len(picks))})
	}
	return apply(s.text, 0, changes) + s.tail.String()
}

func (b *build) put(dir, file, text string) error {
	name := filepath.Join(dir, strconv.Itoa(len(b.replace))+".go")
	b.replace[filepath.Join(root, filepath.FromSlash(file))] = name
	return os.WriteFile(name, []byte(text), 0o600)
}

// overlay writes the file for go build -overlay.
func (b *build) overlay(dir string) (name string, err error) {
	list, err := json.Marshal(map[string]map[string]string{"Replace": b.replace})
	if err != nil {
		return "", err
	}
	name = filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, list, 0o600)
}
