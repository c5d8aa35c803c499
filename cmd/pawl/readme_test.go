// SPDX-License-Identifier: Apache-2.0

//go:build linux

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

// The README's Go is a program that can be run, with a Redis.
func TestReadmeGo(t *testing.T) {
	url := "redis://" + startRedis(t) + "?assume_new=true"
	for _, program := range readme(t, "go") {
		program = strings.Replace(program, "redis://localhost:6379", url, 1)
		dir, err := os.MkdirTemp(".", ".readme-") // within the module, so that imports are found
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("go", "run", "./"+dir).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), `only one of me at a time: lease of "invoice/42", token `) {
			t.Errorf("README.md's program prints %s (%v)", out, err)
		}
	}
}
