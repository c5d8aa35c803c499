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

	"github.com/pawl-go/pawl/driver/drivertest/servers"
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

// TestFiveLines: what the page says of how to start a PostgreSQL for tests, and to stop it, works as it
// stands, from any directory.
func TestFiveLines(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the lines are for root")
	}
	page, err := os.ReadFile("../../docs/guarantees/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page5, _ := strings.Cut(string(page), "## Five lines for tests\n")
	var lines []string
	for line := range strings.Lines(page5) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			lines = append(lines, strings.TrimSpace(code))
		}
	}
	if len(lines) != 6 || !strings.HasPrefix(lines[0], "apt-get ") {
		t.Fatalf("the lines are %q; want five to start it and one to stop it", lines)
	}
	addr, release, err := servers.Hold()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	_, port, _ := strings.Cut(addr, ":")
	w := newWorld(t)
	top, err := os.MkdirTemp("", "pawl-five-lines-") // t.TempDir can be read by root only
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(top)
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, "pg")
	run := func(line string) *proc {
		line = strings.NewReplacer("/tmp/pg", dir, "5433", port, "pawl run", w.exe+" run").Replace(line)
		p := w.sh(line)
		p.end(0)
		return p
	}
	stopped := false
	defer func() {
		if !stopped {
			run(lines[5])
		}
	}()
	for _, line := range lines[1:4] {
		run(line)
	}
	if got := run(lines[4]).stdout(); got != "it works\n" {
		t.Errorf("%s prints %q", lines[4], got)
	}
	run(lines[5])
	stopped = true
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", dir, err)
	}
}
