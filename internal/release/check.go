// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Made-up versions: now is the tree, and next is the tree with one more name in package driver.
const (
	now  = "v0.91.0"
	next = "v0.92.0"
)

// check publishes the tree to a folder at both versions, and uses the modules as strangers do.
func check(root string, told io.Writer) error {
	begin := time.Now()
	t, err := load(root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "release-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := newStranger(t, dir)
	if err != nil {
		return err
	}
	if err := t.publish(s.proxy, now, nil); err != nil {
		return err
	}
	if err := t.publish(s.proxy, next, t.grown()); err != nil {
		return err
	}
	if err := s.all(t.steps(), told); err != nil {
		return err
	}
	_, err = fmt.Fprintf(told, "all modules can be published (%.0f s)\n", time.Since(begin).Seconds())
	return err
}

// grown returns the changes of the next version: package driver exports one more name, and
// all other modules use it. So a module of that version does not compile with an older driver.
func (t *tree) grown() change {
	const name = "zz_release_check.go"
	c := change{}
	for _, m := range t.modules {
		if m.path == t.path {
			c["driver/"+name] = "package driver\n\n// Grown is in the next version only.\nconst Grown = 1\n"
		} else if len(m.packages) > 0 {
			p := m.packages[0]
			c[p.dir+"/"+name] = fmt.Sprintf("package %s\n\nimport %q\n\nvar _ = driver.Grown\n", p.name, t.path+"/driver")
		}
	}
	return c
}

// A step is something that a stranger does in an empty folder.
type step struct {
	name string
	do   func(in *folder) error
}

func (t *tree) steps() (steps []step) {
	add := func(name string, do func(*folder) error) { steps = append(steps, step{name, do}) }
	var libraries []module
	for _, m := range t.modules {
		if slices.ContainsFunc(m.packages, pack.importable) {
			libraries = append(libraries, m)
			add("go get "+m.path+", then the next version", func(in *folder) error { return t.alone(in, m) })
		}
		add("GOWORK=off in "+m.dir, func(in *folder) error { return t.withoutWorkspace(in, m) })
		for _, p := range m.packages {
			// People install the command. Other main packages are examples.
			if p.name == "main" && p.path == m.path {
				add("go install "+p.path, func(in *folder) error { return t.install(in, m) })
			}
		}
	}
	for i, a := range libraries {
		// Each library is once the older and once the newer module.
		b := libraries[(i+1)%len(libraries)]
		if a.path != t.path && a.path != b.path {
			add("mixed: old "+a.path+", new "+b.path, func(in *folder) error { return t.mixed(in, a, b) })
		}
	}
	return steps
}

// alone gets one module at both versions in turn. It checks that go get brings all our
// modules at the same version.
func (t *tree) alone(in *folder, m module) error {
	if err := in.program(m); err != nil {
		return err
	}
	for _, version := range []string{now, next} {
		for _, args := range []string{"get " + m.path + "@" + version, "build -mod=mod ./...", "mod tidy", "build ./..."} {
			if _, err := in.goes(strings.Fields(args)...); err != nil {
				return err
			}
		}
		chosen, err := in.chosen(t)
		if err != nil {
			return err
		}
		for path, v := range chosen {
			if v != version {
				return fmt.Errorf("go get %s@%s brings %s@%s", m.path, version, path, v)
			}
		}
	}
	return nil
}

// mixed gets one module at the old version and another at the new one.
func (t *tree) mixed(in *folder, older, newer module) error {
	if err := in.program(older, newer); err != nil {
		return err
	}
	for _, args := range []string{"get " + older.path + "@" + now, "get " + newer.path + "@" + next, "mod tidy", "build ./..."} {
		if _, err := in.goes(strings.Fields(args)...); err != nil {
			return err
		}
	}
	chosen, err := in.chosen(t)
	if err == nil && (chosen[newer.path] != next || chosen[t.path] != next) {
		err = fmt.Errorf("the program is built with %v", chosen)
	}
	return err
}

// install installs a command at both versions, and checks what "version" prints.
func (t *tree) install(in *folder, m module) error {
	for _, query := range []string{now, "latest"} {
		if _, err := in.goes("install", "-ldflags=-s -w", m.path+"@"+query); err != nil {
			return err
		}
		want := strings.Replace(query, "latest", next, 1)
		said, err := in.runs(filepath.Join(in.dir, "bin", filepath.Base(m.dir)), "version")
		if err != nil || !strings.Contains(said, want) {
			return fmt.Errorf("version %s, once installed, says %q (%v)", want, said, err)
		}
	}
	return nil
}

// withoutWorkspace builds a module of the tree without go.work, from its go.mod alone.
// The tree's go.sum has no sums of our own modules, so the build needs -mod=mod to add
// them. The build must not change go.mod.
func (t *tree) withoutWorkspace(in *folder, m module) error {
	files, err := t.contents(m, now, nil)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := in.write(name, text); err != nil {
			return err
		}
	}
	if _, err := in.goes("build", "-mod=mod", "-o", os.DevNull, "./..."); err != nil {
		return err
	}
	after, err := os.ReadFile(filepath.Join(in.dir, "go.mod"))
	if err == nil && string(after) != files["go.mod"] {
		err = fmt.Errorf("go.mod became\n%s", after)
	}
	return err
}

// all does all steps, two at a time, because the commands in a step wait a lot.
func (s *stranger) all(steps []step, told io.Writer) error {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed []string
		slots  = make(chan struct{}, 2)
	)
	for i, st := range steps {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			begin := time.Now()
			err := st.do(&folder{s, filepath.Join(s.dir, fmt.Sprint(i))})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, st.name)
				fmt.Fprintf(told, "FAIL %s\n%v\n", st.name, err)
				return
			}
			fmt.Fprintf(told, "ok   %s (%.1f s)\n", st.name, time.Since(begin).Seconds())
		})
	}
	wg.Wait()
	if failed != nil {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}
