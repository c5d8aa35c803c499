// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// With the flags of a release, the binary with all stores is small. It grows to twice the
// size if something calls methods by names that the linker cannot know, as html/template does.
func TestBinaryIsLean(t *testing.T) {
	if testing.Short() {
		t.Skip("links the whole command")
	}
	const most, tags, gcflags = 17_750_000, "grpcnotrace", "google.golang.org/...=-l"
	config, err := os.ReadFile("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"tags: [" + tags + "]", "flags: [-trimpath]", "gcflags: [" + gcflags + "]", "-s -w "} {
		if !strings.Contains(string(config), want) {
			t.Errorf(".goreleaser.yaml has no %q, which this test builds with", want)
		}
	}
	binary := filepath.Join(t.TempDir(), "pawl")
	cmd := exec.Command("go", "build", "-tags", tags, "-trimpath", "-gcflags", gcflags, "-ldflags", "-s -w", "-o", binary, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	st, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	if st.Size() > most {
		t.Errorf("the binary has %d bytes, more than %d: go build -ldflags=-dumpdep says who needs what", st.Size(), most)
	}
	t.Logf("%d bytes", st.Size())
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
