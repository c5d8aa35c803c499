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

// blocks returns the code blocks of a page of documentation in the given language.
func blocks(t *testing.T, page, language string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	return blocksOf(string(text), language)
}

func blocksOf(text, language string) (all []string) {
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// TestQuickStartCommand: the second block of the page prints what the page says. The holder waits
// for a file in place of three seconds, and its follower for the holder in place of one.
func TestQuickStartCommand(t *testing.T) {
	w := newWorld(t)
	script, printed := blocks(t, "quick-start-command.md", "sh"), blocks(t, "quick-start-command.md", "text")
	if len(script) < 2 || len(printed) != 1 {
		t.Fatalf("the page has %d blocks of sh and %d of text", len(script), len(printed))
	}
	lines := strings.Split(strings.TrimSpace(script[1]), "\n")
	lines[len(lines)-1] = "touch go; " + lines[len(lines)-1]
	text := strings.NewReplacer(
		"sleep 3 &", "sh -c 'until test -e go; do sleep 0.05; done' &",
		"sleep 1\n", "until pawl show backup 2>/dev/null | grep -q '^held by .*@'; do sleep 0.05; done\n",
	).Replace("PATH=" + w.dir + ":$PATH\nexec 2>&1\n" + strings.Join(lines, "\n") + "\nwait\n")
	if strings.Count(text, "0.05") != 2 {
		t.Fatalf("the page has other commands than the test expects:\n%s", text)
	}
	p := w.sh(text)
	p.end(0)
	want := strings.ReplaceAll(regexp.QuoteMeta(printed[0]), "…", ".*")
	if !regexp.MustCompile("^" + want + "$").MatchString(p.stdout()) {
		t.Errorf("the commands print\n%s\nthe page says\n%s", p.stdout(), printed[0])
	}
}

// TestQuickStartLibrary: the page's program runs.
func TestQuickStartLibrary(t *testing.T) {
	programs := blocks(t, "quick-start-library.md", "go")
	if len(programs) != 1 {
		t.Fatalf("the page has %d programs", len(programs))
	}
	program := strings.Replace(programs[0], `filelock.Open("", nil)`, `filelock.Open("`+t.TempDir()+`", nil)`, 1)
	if out, err := goRun(t, program); err != nil || !regexp.MustCompile(`^one at a time: invoice/42\ntoken: \d+\n$`).MatchString(out) {
		t.Errorf("the page's program prints %s (%v)", out, err)
	}
}

// goRun runs a program within the module, so that imports are found.
func goRun(t *testing.T, program string) (string, error) {
	t.Helper()
	dir, err := os.MkdirTemp(".", ".page-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "run", "./"+dir).CombinedOutput()
	return string(out), err
}
