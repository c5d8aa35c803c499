// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// unpublished are the modules that are only for work on this tree.
var unpublished = []string{"lab"}

// tree has the modules that can be published.
type tree struct {
	root    string
	path    string // the path of the root module; the paths of the others begin with it
	modules []module
}

type module struct {
	path, dir string   // dir is ".", or a folder such as "redislock"
	files     []string // paths from the root of the tree
	packages  []pack
}

type pack struct {
	path, dir, name string // dir from the root of the tree
}

// importable reports whether a program outside this tree can import p.
func (p pack) importable() bool {
	return p.name != "main" && !strings.Contains(p.path+"/", "/internal/")
}

// load reads the tree below root: the files in git, and new files that git does not ignore.
func load(root string) (*tree, error) {
	t := &tree{root: root}
	ours, err := output(root, "go", "list", "-m", "-f", "{{.Path}} {{.Dir}}")
	if err != nil {
		return nil, err
	}
	listed, err := output(root, "git", "ls-files", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	var dirs []string
	for line := range strings.Lines(ours) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if dir, err = filepath.Rel(root, dir); err != nil {
			return nil, err
		}
		dirs = append(dirs, filepath.ToSlash(dir))
		t.modules = append(t.modules, module{path: path, dir: dirs[len(dirs)-1]})
	}
	files := split(strings.Split(listed, "\n"), dirs)
	t.modules = slices.DeleteFunc(t.modules, func(m module) bool { return slices.Contains(unpublished, m.dir) })
	for i := range t.modules {
		m := &t.modules[i]
		m.files = files[m.dir]
		if m.packages, err = packages(root, m.dir); err != nil {
			return nil, err
		}
		if m.dir == "." {
			t.path = m.path
		}
	}
	if t.path == "" {
		return nil, fmt.Errorf("%s/go.work does not use ./", root)
	}
	return t, nil
}

// split returns the files of each module: a file belongs to the innermost module around it.
func split(files, dirs []string) map[string][]string {
	in := map[string][]string{}
	for _, f := range files {
		dir := path.Dir(f)
		for dir != "." && !slices.Contains(dirs, dir) {
			dir = path.Dir(dir)
		}
		in[dir] = append(in[dir], f)
	}
	return in
}

func packages(root, dir string) (found []pack, err error) {
	text, err := output(root, "go", "list", "-f", "{{.ImportPath}} {{.Dir}} {{.Name}}", "./"+dir+"/...")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue // a folder with tests only has no name
		}
		rel, err := filepath.Rel(root, f[1])
		if err != nil {
			return nil, err
		}
		found = append(found, pack{f[0], filepath.ToSlash(rel), f[2]})
	}
	return found, nil
}

// atVersion returns a go.mod or go.work with all of our modules at a version.
func (t *tree) atVersion(text, version string) string {
	ours := regexp.MustCompile(`(?m)(^|\s)(` + regexp.QuoteMeta(t.path) + `(?:/[\w./-]+)?) v\d[\w.+-]*`)
	return ours.ReplaceAllString(text, "${1}${2} "+version)
}

// output runs a command and returns what it prints, without the last newline.
func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
