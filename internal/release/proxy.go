// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A change has the new text of each file that it adds to the tree or changes, by path.
type change map[string]string

// publish adds the tree with a change to the module proxy in a folder. It publishes
// all our modules at the same version, and they require each other at that version.
func (t *tree) publish(proxy, version string, changed change) error {
	for _, m := range t.modules {
		if err := t.publishModule(m, proxy, version, changed); err != nil {
			return fmt.Errorf("publish %s@%s: %w", m.path, version, err)
		}
	}
	return nil
}

func (t *tree) publishModule(m module, proxy, version string, changed change) error {
	dir := filepath.Join(proxy, filepath.FromSlash(m.path), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := t.contents(m, version, changed)
	if err != nil {
		return err
	}
	list, err := os.OpenFile(filepath.Join(dir, "list"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer list.Close()
	if _, err := fmt.Fprintln(list, version); err != nil {
		return err
	}
	info := fmt.Sprintf(`{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version)
	if err := os.WriteFile(filepath.Join(dir, version+".info"), []byte(info), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, version+".mod"), []byte(files["go.mod"]), 0o644); err != nil {
		return err
	}
	return writeZip(filepath.Join(dir, version+".zip"), m.path+"@"+version, files)
}

// contents returns the files of a module, by their names inside it.
func (t *tree) contents(m module, version string, changed change) (map[string]string, error) {
	in := map[string]string{}
	for _, f := range m.files {
		name := filepath.Join(t.root, filepath.FromSlash(f))
		st, err := os.Lstat(name)
		if os.IsNotExist(err) || err == nil && !st.Mode().IsRegular() {
			continue // deleted and not yet committed, or a link, which modules cannot contain
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		in[m.inside(f)] = string(text)
	}
	dirs := []string{}
	for _, other := range t.modules {
		dirs = append(dirs, other.dir)
	}
	for _, f := range split(slices.Sorted(maps.Keys(changed)), dirs)[m.dir] {
		in[m.inside(f)] = changed[f]
	}
	in["go.mod"] = t.atVersion(in["go.mod"], version)
	return in, nil
}

// inside returns the name of a file of the tree inside the module.
func (m module) inside(file string) string {
	return strings.TrimPrefix(file, strings.TrimPrefix(m.dir+"/", "./"))
}

func writeZip(name, prefix string, files map[string]string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	z := zip.NewWriter(f)
	for _, inside := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create(path.Join(prefix, inside))
		if err != nil {
			return err
		}
		if _, err := w.Write([]byte(files[inside])); err != nil {
			return err
		}
	}
	return z.Close()
}
