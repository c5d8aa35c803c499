// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSimPictures: the pictures in the documents are what the command draws. With
// PAWL_UPDATE=1 it draws them anew.
func TestSimPictures(t *testing.T) {
	for _, c := range []struct{ file, verdict, flags string }{
		{"restart-unsafe.svg", "UNSAFE: two clients held the lock at the same time", "--scenario restart --unsafe"},
		{"restart-safe.svg", "SAFE: never more than one client held the lock", "--scenario restart"},
	} {
		t.Run(c.file, func(t *testing.T) {
			drawn := filepath.Join(t.TempDir(), c.file)
			var stdout, stderr bytes.Buffer
			args := append([]string{"sim", "--svg", drawn}, strings.Fields(c.flags)...)
			if code := execute(args, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
				t.Fatalf("exit code %d: %s", code, &stderr)
			}
			if !strings.HasPrefix(stdout.String(), c.verdict) {
				t.Errorf("stdout = %s; want it to begin with %q", &stdout, c.verdict)
			}
			got, err := os.ReadFile(drawn)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Join("..", "..", "docs", c.file)
			if os.Getenv("PAWL_UPDATE") != "" {
				if err := os.WriteFile(name, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s is not what pawl %s draws; draw it anew with PAWL_UPDATE=1 go test -run TestSimPictures ./cmd/pawl", name, strings.Join(args, " "))
			}
		})
	}
}

// TestNoTesting: what users install has nothing of package testing.
func TestNoTesting(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range strings.Fields(string(out)) {
		if pkg == "testing" || strings.HasPrefix(pkg, "testing/") {
			t.Errorf("the command is linked with package %s", pkg)
		}
	}
}

// TestSimArguments: mistakes say what to type, and every scenario breaks its rule
// only without its protection.
func TestSimArguments(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing", "x.svg")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", 64, "name a scenario"},
		{"--scenario nonsense", 64, "use one of restart"},
		{"--scenario restart --store redis://localhost", 64, "leave --store out"},
		{"--scenario restart", 0, "SAFE"},
		{"--scenario restart --svg " + missing, 71, "cannot write the picture"},
	} {
		var out bytes.Buffer
		if code := execute(append([]string{"sim"}, strings.Fields(c.args)...), &out, &out); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("pawl sim %s: exit code %d, %q; want %d, %q", c.args, code, &out, c.code, c.says)
		}
	}
	for _, name := range scenarioNames() {
		var safe, unsafe bytes.Buffer
		if code := execute([]string{"sim", "--scenario", name}, &safe, &safe); code != 0 || !strings.HasPrefix(safe.String(), "SAFE") {
			t.Errorf("pawl sim --scenario %s: exit code %d, %s", name, code, &safe)
		}
		if code := execute([]string{"sim", "--scenario", name, "--unsafe"}, &unsafe, &unsafe); code != 0 || !strings.HasPrefix(unsafe.String(), "UNSAFE") {
			t.Errorf("pawl sim --scenario %s --unsafe: exit code %d, %s", name, code, &unsafe)
		}
	}
}
