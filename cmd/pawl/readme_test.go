// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// readme returns the code blocks of README.md in the given language.
func readme(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("README.md has no block of %s", language)
	}
	return blocks
}

// The README's commands for contributors: the first is run here as it stands, the second
// is what runs this.
func TestReadmeCommands(t *testing.T) {
	blocks := readme(t, "sh")
	lines := strings.Split(strings.TrimSpace(blocks[len(blocks)-1]), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "go run ./cmd/pawl run hello") || !strings.HasPrefix(lines[1], "make test") {
		t.Fatalf("README.md ends with %q", lines)
	}
	cmd := exec.Command("sh", "-c", lines[0])
	cmd.Dir = "../.."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || string(out) != "only one of me at a time\n" || stderr.Len() > 0 {
		t.Errorf("%s\nprints %q and %q (%v)", lines[0], out, stderr.String(), err)
	}
}

// The README's Go compiles, inside a program that has what it takes for given.
func TestReadmeGo(t *testing.T) {
	for _, block := range readme(t, "go") {
		dir, err := os.MkdirTemp(".", ".readme-") // within the module, so that imports are found
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		program := `package main

import (
	"context"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/filelock"
)

type saver struct{}

func (saver) Save(context.Context, string, pawl.Token) error { return nil }

func save(ctx context.Context, store saver, invoice string) error {
` + block + `}

func main() { _ = save(context.Background(), saver{}, "") }
`
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("go", "vet", "./"+dir).CombinedOutput(); err != nil {
			t.Errorf("README.md's Go does not compile: %s\n%s", out, program)
		}
	}
}
