// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// small is a tree of two modules and a command.
func small() map[string]string {
	return map[string]string{
		"go.work": "go 1.26.0\n\nuse (\n\t./\n\t./store\n\t./cmd/tool\n)\n\nreplace (\n\texample.com/own v0.1.0 => ./\n" +
			"\texample.com/own/store v0.1.0 => ./store\n\texample.com/own/cmd/tool v0.1.0 => ./cmd/tool\n)\n",
		"go.mod":             "module example.com/own\n\ngo 1.26.0\n",
		"own.go":             "package own\n\nimport _ \"example.com/own/driver\"\n",
		"driver/driver.go":   "package driver\n",
		"store/go.mod":       "module example.com/own/store\n\ngo 1.26.0\n\nrequire example.com/own v0.1.0\n",
		"store/store.go":     "package store\n\nimport _ \"example.com/own/driver\"\n",
		"store/in/s.go":      "package in\n",
		"cmd/tool/go.mod":    "module example.com/own/cmd/tool\n\ngo 1.26.0\n\nrequire example.com/own/store v0.1.0\n\nrequire example.com/own v0.1.0 // indirect\n",
		"cmd/tool/main.go":   "package main\n\nimport (\n\t\"fmt\"\n\t\"runtime/debug\"\n\n\t_ \"example.com/own/store\"\n)\n\nfunc main() {\n\tinfo, _ := debug.ReadBuildInfo()\n\tfmt.Println(info.Main.Version)\n}\n",
		"store/ignored.txt":  "not published\n",
		"cmd/tool/README.md": "published\n",
		".gitignore":         "ignored.txt\n",
	}
}

func plant(t *testing.T, files map[string]string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("git", "init", "--quiet", root).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	t.Setenv("GOPROXY", "off") // no proxy has these modules
	t.Setenv("GOWORK", "")
	return root
}

func TestCheckPasses(t *testing.T) {
	var told strings.Builder
	if err := check(plant(t, small()), &told); err != nil {
		t.Fatalf("%v\n%s", err, told.String())
	}
	for _, want := range []string{"go get example.com/own,", "go get example.com/own/store,", "go install example.com/own/cmd/tool", "mixed: old example.com/own/store"} {
		if !strings.Contains(told.String(), "ok   "+want) {
			t.Errorf("it has not tried %q:\n%s", want, told.String())
		}
	}
}

// The check finds each of these mistakes.
func TestCheckFails(t *testing.T) {
	for name, c := range map[string]struct {
		file, old, new string
		fails          string
	}{
		"a module that requires none of ours": {"store/go.mod", "require example.com/own v0.1.0\n", "", "FAIL go get example.com/own/store"},
		"a command that requires too little":  {"cmd/tool/go.mod", "require example.com/own/store v0.1.0\n", "", "FAIL GOWORK=off in cmd/tool"},
		"a replace line in a go.mod":          {"cmd/tool/go.mod", "go 1.26.0\n", "go 1.26.0\n\nreplace example.com/own => ../..\n", "FAIL go install example.com/own/cmd/tool"},
		"a package that nobody publishes":     {"store/store.go", "example.com/own/driver", "example.com/own/bench", "FAIL go get example.com/own/store"},
	} {
		t.Run(name, func(t *testing.T) {
			files := small()
			if !strings.Contains(files[c.file], c.old) {
				t.Fatalf("%s has no %q", c.file, c.old)
			}
			files[c.file] = strings.Replace(files[c.file], c.old, c.new, 1)
			files["bench/bench.go"] = "package bench\n"
			files["bench/go.mod"] = "module example.com/own/bench\n\ngo 1.26.0\n"
			files["go.work"] = strings.Replace(files["go.work"], "use (", "use (\n\t./bench", 1)
			var told strings.Builder
			if err := check(plant(t, files), &told); err == nil || !strings.Contains(told.String(), c.fails) {
				t.Errorf("it says %v, and not %q:\n%s", err, c.fails, told.String())
			}
		})
	}
}

func TestContents(t *testing.T) {
	tr, err := load(plant(t, small()))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range tr.modules {
		files, err := tr.contents(m, "v0.5.0", change{"store/new.go": "package store\n", "driver/new.go": "package driver\n"})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string][]string{
			"example.com/own":          {".gitignore", "driver/driver.go", "driver/new.go", "go.mod", "go.work", "own.go"},
			"example.com/own/store":    {"go.mod", "in/s.go", "new.go", "store.go"},
			"example.com/own/cmd/tool": {"README.md", "go.mod", "main.go"},
		}[m.path]
		if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
			t.Errorf("%s is published with %q; want %q", m.path, got, want)
		}
		if strings.Contains(files["go.mod"], "v0.1.0") {
			t.Errorf("%s is published with\n%s", m.path, files["go.mod"])
		}
	}
	if got, want := tr.tags("v0.5.0"), []string{"v0.5.0", "store/v0.5.0", "cmd/tool/v0.5.0"}; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("tags %q; want %q", got, want)
	}
}
