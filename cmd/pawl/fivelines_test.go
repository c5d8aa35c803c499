// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

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
	top, err := os.MkdirTemp("", "pawl-five-lines-") // that of a test is root's alone
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
