// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A stranger is a user who has Go and the published modules, but not this tree.
type stranger struct {
	dir, proxy string
	env        []string
}

func newStranger(t *tree, dir string) (*stranger, error) {
	s := &stranger{dir: dir, proxy: filepath.Join(dir, "proxy")}
	// Modules of others come from the module cache of this machine, or from its usual proxies. With "|"
	// between proxies, the go command asks the next proxy after any error, and not only after
	// "not found": some proxies refuse modules that they do not have.
	text, err := output(t.root, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	cache, proxies, _ := strings.Cut(text, "\n")
	proxies = strings.TrimSuffix(strings.ReplaceAll(proxies, ",", "|"), "|direct")
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GO") && !strings.HasPrefix(v, "PAWL_") || strings.HasPrefix(v, "GOCACHE=") || strings.HasPrefix(v, "GOTOOLCHAIN=") {
			s.env = append(s.env, v)
		}
	}
	s.env = append(s.env,
		"GOPROXY="+fileURL(s.proxy)+"|"+fileURL(filepath.Join(cache, "cache", "download"))+"|"+proxies,
		"GOMODCACHE="+filepath.Join(dir, "modules"),
		// The modules are in another folder each time. With -trimpath the build cache works all the same.
		"GOFLAGS=-modcacherw -trimpath -buildvcs=false",
		"GOWORK=off", "GOSUMDB=off", "GONOSUMDB=*", "GONOSUMCHECK=1", "CGO_ENABLED=0",
	)
	return s, os.MkdirAll(s.proxy, 0o755)
}

func fileURL(dir string) string {
	return "file://" + filepath.ToSlash(dir)
}

// folder is where a stranger does one step.
type folder struct {
	*stranger
	dir string
}

func (f *folder) write(name, text string) error {
	name = filepath.Join(f.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

// program makes a module that imports every importable package of the given modules.
func (f *folder) program(modules ...module) error {
	var b strings.Builder
	b.WriteString("package program\n\nimport (\n")
	for _, m := range modules {
		for _, p := range m.packages {
			if p.importable() {
				fmt.Fprintf(&b, "\t_ %q\n", p.path)
			}
		}
	}
	b.WriteString(")\n")
	if err := f.write("program.go", b.String()); err != nil {
		return err
	}
	_, err := f.goes("mod", "init", "example.com/program")
	return err
}

// goes runs the go command.
func (f *folder) goes(args ...string) (string, error) { return f.runs("go", args...) }

func (f *folder) runs(name string, args ...string) (string, error) {
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return "", err
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = f.dir
	cmd.Env = append(slices.Clip(f.env), "GOBIN="+filepath.Join(f.dir, "bin")) // folders share env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// chosen returns the versions of our modules with which a program is built, by path.
func (f *folder) chosen(t *tree) (map[string]string, error) {
	text, err := f.goes("list", "-m", "all")
	if err != nil {
		return nil, err
	}
	chosen := map[string]string{}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 2 && strings.HasPrefix(fields[0]+"/", t.path+"/") {
			chosen[fields[0]] = fields[1]
		}
	}
	if chosen[t.path] == "" {
		return nil, fmt.Errorf("the program is built without %s:\n%s", t.path, text)
	}
	return chosen, nil
}
