// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAtVersion(t *testing.T) {
	tr := &tree{path: "example.com/own"}
	const text = "require (\n\texample.com/own v0.1.0\n\texample.com/own/a/b v0.1.0-rc.1 // indirect\n\texample.com/owner v0.1.0\n)\nreplace example.com/own/a v0.1.0 => ./a\nrequire example.com/own v0.1.0\n"
	const want = "require (\n\texample.com/own v0.2.0\n\texample.com/own/a/b v0.2.0 // indirect\n\texample.com/owner v0.1.0\n)\nreplace example.com/own/a v0.2.0 => ./a\nrequire example.com/own v0.2.0\n"
	if got := tr.atVersion(text, "v0.2.0"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestChangelog(t *testing.T) {
	const old = "# Changelog\n\n## Unreleased\n\n### Added\n\n- One.\n\n## v0.1.0 - 2026-01-01\n\n- Zero.\n"
	got, err := closed(old, "v0.2.0", "2026-02-02")
	if want := "# Changelog\n\n## Unreleased\n\n## v0.2.0 - 2026-02-02\n\n### Added\n\n- One.\n\n## v0.1.0 - 2026-01-01\n\n- Zero.\n"; err != nil || got != want {
		t.Errorf("closed (%v):\n%s\nwant\n%s", err, got, want)
	}
	for version, want := range map[string]string{"v0.2.0": "### Added\n\n- One.\n", "v0.1.0": "- Zero.\n"} {
		if s, err := section(got, version); err != nil || s != want {
			t.Errorf("section %s is %q (%v); want %q", version, s, err, want)
		}
	}
	for text, want := range map[string]string{got: "nothing that is unreleased", old[:12]: "has no line", strings.Replace(old, "v0.1.0", "v0.3.0", 1): "already"} {
		if _, err := closed(text, "v0.3.0", ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	if _, err := section(old, "v0.9.0"); err == nil {
		t.Error("a version that is not there has a section")
	}
}

// A release is a commit and its tags. If a release is not possible, nothing changes.
func TestRelease(t *testing.T) {
	files := small()
	files["CHANGELOG.md"] = "# Changelog\n\n## Unreleased\n\n- One.\n"
	files["Makefile"] = "test tidy release-check:\n\ttrue\n"
	root := plant(t, files)
	git := func(args ...string) string {
		t.Helper()
		out, err := output(root, "git", args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, v := range []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(v, "a@example.com")
	}
	if err := release(root, "v0.2.0"); err == nil || !strings.Contains(err.Error(), "not committed") {
		t.Errorf("with files that are not committed: %v", err)
	}
	git("add", ".")
	git("commit", "--quiet", "--message", "all")
	for _, bad := range []string{"0.2.0", "v0.2", "v2.0.0", "latest"} {
		if err := release(root, bad); err == nil || !strings.Contains(err.Error(), "is no version") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if err := release(root, "v0.2.0"); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Split(git("tag", "--points-at", "HEAD"), "\n"), []string{"cmd/tool/v0.2.0", "store/v0.2.0", "v0.2.0"}; !slices.Equal(got, want) {
		t.Errorf("tags %q; want %q", got, want)
	}
	for file, want := range map[string]string{"CHANGELOG.md": "## v0.2.0 - ", "go.work": "own v0.2.0 => ./\n", "store/go.mod": "own v0.2.0\n"} {
		if text, err := os.ReadFile(filepath.Join(root, file)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q (%v):\n%s", file, want, err, text)
		}
	}
	if err := release(root, "v0.2.0"); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("the same version once more: %v", err)
	}
	if status := git("status", "--porcelain"); status != "" {
		t.Errorf("left behind: %s", status)
	}
}
