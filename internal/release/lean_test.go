// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The tests in this file compile the command, which keeps all processors busy for minutes. So they are not
// among the command's own tests, in which servers have to answer in time.

// command is the folder of the command.
const command = "../../cmd/pawl"

// TestBinaryIsLean: with the flags of a release, the binary with all stores is small. It grows to twice the
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
	cmd.Dir = command
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

// TestNoTesting: the command is not linked with package testing.
func TestNoTesting(t *testing.T) {
	for _, pkg := range deps(t, "") {
		if pkg == "testing" || strings.HasPrefix(pkg, "testing/") {
			t.Errorf("the command is linked with package %s", pkg)
		}
	}
}

// deps returns the packages in the command with the given build tags.
func deps(t *testing.T, tags string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-tags", tags, ".")
	cmd.Dir = command
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// TestWithoutAStore: a command that was built without a store does not contain the store's client, and
// tells the user what to do.
func TestWithoutAStore(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the command")
	}
	for _, c := range []struct{ tag, client, url string }{
		{"noetcd", "google.golang.org/grpc", "etcd://me:s3cret@127.0.0.1:1/x"},
		{"nopostgres", "github.com/jackc/pgx/v5", "postgres://me:s3cret@127.0.0.1:1/x"},
	} {
		for tags, want := range map[string]bool{"": true, c.tag: false} {
			if got := slices.Contains(deps(t, tags), c.client); got != want {
				t.Errorf("with tags %q: %s is in: %v; want %v", tags, c.client, got, want)
			}
		}
		cmd := exec.Command("go", "run", "-tags", c.tag, ".", "ls", "-s", c.url)
		cmd.Dir = command
		out, err := cmd.CombinedOutput()
		if got := string(out); err == nil || !strings.Contains(got, "go install github.com/") || strings.Contains(got, "s3cret") || !strings.HasSuffix(got, "exit status 78\n") {
			t.Errorf("with tags %s it says %q (%v)", c.tag, got, err)
		}
	}
}
