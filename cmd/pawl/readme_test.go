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

// What the README says of a clone: its command runs, and a module of one's own has the library.
func TestReadmeClone(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	_, part, ok := strings.Cut(string(text), "## From a clone\n")
	sh := blocksOf(part, "sh")
	get := regexp.MustCompile(`(?m)^go get (\S+)`).FindStringSubmatch(string(text))
	if !ok || len(sh) != 2 || !strings.Contains(part, "`make test`") || get == nil || !strings.Contains(sh[1], get[1]+"=CLONE") {
		t.Fatalf("README.md ends with %q (%v)", part, err)
	}
	var stderr strings.Builder
	run := func(dir, line string) string {
		stderr.Reset()
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir, cmd.Stderr, cmd.Env = dir, &stderr, append(os.Environ(), "GOWORK=off")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s\n%s%v", line, stderr.String(), err)
		}
		return string(out)
	}
	lines := strings.Split(strings.TrimSpace(sh[0]), "\n")
	hello := lines[len(lines)-1]
	if out := run(t.TempDir(), hello); out != "only one of me at a time\n" || stderr.Len() > 0 {
		t.Errorf("%s\nprints %q and %q", hello, out, stderr.String())
	}
	clone, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(blocks(t, "../README.md", "go")[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	run(dir, "go mod init example.com/own")
	lines = strings.Split(strings.TrimSpace(sh[1]), "\n")
	for _, line := range lines[:len(lines)-1] {
		run(dir, strings.ReplaceAll(line, "CLONE", clone))
	}
	run(dir, "go mod tidy && go vet .") // the next test runs it
}

// The README's Go is a program that can be run, with a Redis.
func TestReadmeGo(t *testing.T) {
	url := "redis://" + startRedis(t) + "?assume_new=true"
	for _, program := range blocks(t, "../README.md", "go") {
		program = strings.Replace(program, "redis://localhost:6379", url, 1)
		if out, err := goRun(t, program); err != nil || !strings.HasPrefix(out, `only one of me at a time: lease of "invoice/42", token `) {
			t.Errorf("README.md's program prints %s (%v)", out, err)
		}
	}
}
