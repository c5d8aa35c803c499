// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// mutant is an entry of a table.
type mutant struct {
	name  string
	table string // the package of the table, below the root
	edits []edit
	pkg   string   // package of the test, below the root
	test  string   // name of the test that must fail
	says  []string // patterns, one of which matches the beginning of a message of the test; * is any text
}

// edit replaces text that a file below the root has exactly once, with any indentation.
type edit struct{ file, old, new string }

const (
	tableFile = "testdata/mutants.txt"
)

var root, _ = filepath.Abs("../..")

// everyMutant returns the mutants of all tables. The number of a mutant is its place in the list, from 1.
var everyMutant = sync.OnceValues(func() (all []*mutant, err error) {
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case !strings.HasSuffix(filepath.ToSlash(file), "/"+tableFile):
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(filepath.Dir(file)))
		if err != nil {
			return err
		}
		of, err := parse(filepath.ToSlash(dir), string(text))
		all = append(all, of...)
		return err
	})
	names := make(map[string]bool)
	for _, m := range all {
		if names[m.String()] {
			return nil, fmt.Errorf("%s has two mutants %q", m.table, m.name)
		}
		names[m.String()] = true
	}
	return all, err
})

func (m *mutant) String() string { return m.table + ": " + m.name }

// parse reads the table of a package.
func parse(pkg, text string) ([]*mutant, error) {
	var all []*mutant
	var m *mutant
	for n, line := range slices.Collect(strings.Lines(text)) {
		line = strings.TrimRight(line, " \n")
		sign, rest, _ := strings.Cut(line, " ")
		var err error
		switch {
		case line == "" || sign == "//":
		case sign == "#":
			file, name, ok := strings.Cut(rest, ": ")
			if !ok {
				err = fmt.Errorf("want # FILE: NAME")
			}
			m = &mutant{name: name, table: pkg, edits: []edit{{file: path.Join(pkg, file)}}}
			all = append(all, m)
		case m == nil:
			err = fmt.Errorf("want # FILE: NAME first")
		default:
			err = m.add(sign, rest)
		}
		if err != nil {
			return nil, fmt.Errorf("%s/%s:%d: %q: %w", pkg, tableFile, n+1, line, err)
		}
	}
	for _, m := range all {
		if m.test == "" || slices.ContainsFunc(m.edits, func(e edit) bool { return e.old == "" }) {
			return nil, fmt.Errorf("%s/%s: %q lacks a line that begins with - or !", pkg, tableFile, m.name)
		}
	}
	return all, nil
}

// add reads a line of the mutant.
func (m *mutant) add(sign, rest string) error {
	e := &m.edits[len(m.edits)-1]
	switch sign {
	case "@":
		m.edits = append(m.edits, edit{file: path.Join(m.table, rest)})
	case "-":
		e.old = strings.TrimPrefix(e.old+"\n"+rest, "\n")
	case "+":
		e.new = strings.TrimPrefix(e.new+"\n"+rest, "\n")
	case "!":
		test, says, ok := strings.Cut(rest, ": ")
		if ok {
			m.says = append(m.says, says)
		}
		m.pkg, m.test = m.table, test
		if pkg, test, ok := strings.Cut(test, " "); ok {
			m.pkg, m.test = pkg, test
		}
	default:
		return fmt.Errorf("want a line that begins with #, @, -, +, ! or //")
	}
	return nil
}

var learning sync.Mutex

// learn adds the message of the test to the mutant's table.
func (m *mutant) learn(said string) error {
	learning.Lock()
	defer learning.Unlock()
	m.says = append(m.says, said)
	file := filepath.Join(root, filepath.FromSlash(m.table), tableFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	at := slices.IndexFunc(lines, func(line string) bool {
		file, name, _ := strings.Cut(line, ": ")
		return strings.HasPrefix(file, "# ") && name == m.name
	})
	at += slices.IndexFunc(lines[at:], func(line string) bool { return strings.HasPrefix(line, "! ") })
	if test, _, ok := strings.Cut(lines[at], ": "); ok {
		lines = slices.Insert(lines, at, test)
	}
	lines[at] += ": " + said
	return os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644)
}

// find returns where the edit's old text is.
func (e edit) find(text string) (from, to int, err error) {
	lines := strings.Split(e.old, "\n")
	for i, line := range lines {
		lines[i] = regexp.QuoteMeta(strings.TrimSpace(line))
	}
	all := regexp.MustCompile(strings.Join(lines, `[ \t]*\n[ \t]*`)).FindAllStringIndex(text, -1)
	if len(all) != 1 {
		return 0, 0, fmt.Errorf("%s has %d times %q, want once", e.file, len(all), e.old)
	}
	return all[0][0], all[0][1], nil
}
