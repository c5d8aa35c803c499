// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestWithoutPostgres: a command that was built with -tags nopostgres has nothing of
// PostgreSQL's client, and tells what to type.
func TestWithoutPostgres(t *testing.T) {
	t.Parallel()
	for tags, has := range map[string]bool{"": true, "nopostgres": false} {
		out, err := exec.Command("go", "list", "-deps", "-tags", tags, ".").Output()
		if err != nil || strings.Contains(string(out), "\ngithub.com/jackc/pgx/") != has {
			t.Errorf("with tags %q: the client is in: %v; want %v (%v)", tags, !has, has, err)
		}
	}
	out, err := exec.Command("go", "run", "-tags", "nopostgres", ".", "ls", "-s", "postgres://me:s3cret@127.0.0.1:1/x").CombinedOutput()
	if got := string(out); err == nil || !strings.Contains(got, "go install github.com/") || strings.Contains(got, "s3cret") || !strings.HasSuffix(got, "exit status 78\n") {
		t.Errorf("it says %q (%v)", got, err)
	}
}
