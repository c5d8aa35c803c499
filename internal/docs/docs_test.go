// SPDX-License-Identifier: Apache-2.0

// Package docs checks that everything exists that the documentation names: tests, files, links,
// commands, flags, variables and exported names.
package docs

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestDocsNameWhatIsThere(t *testing.T) {
	tr := load(t)
	for _, page := range slices.Sorted(maps.Keys(tr.pages)) {
		if page == "CHANGELOG.md" || strings.Contains(page, "/testdata/") { // history may name things that are gone
			continue
		}
		for _, wrong := range tr.mistakes(page, tr.pages[page]) {
			t.Errorf("%s: %s", page, wrong)
		}
	}
}

// TestCodeNamesPages: comments, help and errors name pages that exist.
func TestCodeNamesPages(t *testing.T) {
	tr := load(t)
	for _, m := range goDoc.FindAllStringSubmatch(tr.source.String(), -1) {
		if !tr.some(strings.TrimSuffix(m[1], "/")) {
			t.Errorf("the code names %s, which is not there", m[1])
		}
	}
	if tr.some("docs/guarantee.md") || !tr.some("docs/adr/0011") {
		t.Error("the check does not know what is there")
	}
}

// TestPagesAreListed: the table of contents leads to every page, and the index of decisions to every decision.
func TestPagesAreListed(t *testing.T) {
	tr := load(t)
	for page := range tr.pages {
		for _, folder := range []string{"docs/adr/", "docs/"} {
			rel, ok := strings.CutPrefix(page, folder)
			if ok && rel != "README.md" && !strings.Contains(tr.pages[folder+"README.md"], "("+rel+")") {
				t.Errorf("%sREADME.md does not list %s", folder, rel)
			}
			if ok && page != "docs/adr/README.md" {
				break
			}
		}
	}
}

// TestPagesAreShort: people do not read long pages.
func TestPagesAreShort(t *testing.T) {
	tr, all := load(t), 0
	for page, text := range tr.pages {
		n := len(strings.Fields(text))
		if path.Dir(page) == "docs/adr" && path.Base(page) != "README.md" && n > 250 {
			t.Errorf("%s has %d words: a decision has 250 at most", page, n)
		}
		if page != "CHANGELOG.md" && !strings.Contains(page, "/testdata/") {
			all += n
		}
	}
	if all > 45000 || all < 20000 {
		t.Errorf("all pages have %d words; want 45,000 at most", all)
	}
}

// TestMistakesAreFound: each kind of mistake is reported, and correct text is not.
func TestMistakesAreFound(t *testing.T) {
	tr := load(t)
	for text, want := range map[string]string{
		"`go test -run TestNoSuchThing ./redislock`":          "TestNoSuchThing is no test of",
		"    go test -run 'TestWire|TestGone' ./zklock":       "TestGone is no test of zklock",
		"    go test -run TestWire/no-such-sentence ./zklock": "has no subtest no-such-sentence",
		"    go test -run TestWire ./nolock":                  "there are no tests in ./nolock",
		"as `TestGoneForGood` shows":                          "there is no test TestGoneForGood",
		"[a page](no-such.md)":                                "leads nowhere",
		"[a part](../README.md#no-such-heading)":              "names a heading that is not there",
		"in `redislock/no_such.go`":                           "there is no file redislock/no_such.go",
		"in `nosuch.lua`":                                     "there is no file nosuch.lua",
		"with `--no-such-flag`":                               "no command of ours has the flag --no-such-flag",
		"    pawl run --no-such deploy -- ./x":                "pawl has no flag --no-such",
		"    go run ./cmd/pawl frobnicate":                    "pawl has no command frobnicate",
		"    go run ./lab/chaos --no-such":                    "chaos has no flag --no-such",
		"`make nosuch`":                                       "make has no target nosuch",
		"`$PAWL_NO_SUCH`":                                     "nothing reads the variable PAWL_NO_SUCH",
		"    NO_SUCH_THING=1 go test .":                       "nothing reads the variable NO_SUCH_THING",
		"`pawl.NoSuch`":                                       "package pawl has no NoSuch",
		"`pawl.Client.NoSuch`":                                "pawl.Client has no NoSuch",
		"`Lease.NoSuch`":                                      "there is no Lease.NoSuch",
		"`NoSuch(3)`":                                         "there is no NoSuch()",
		"`ErrNoSuch`":                                         "there is no ErrNoSuch",
		"```go\nlocks, err := filelock.NoSuch(\"\")\n```\n":   "package filelock has no NoSuch",
	} {
		if wrong := tr.mistakes("docs/page.md", text); len(wrong) != 1 || !strings.Contains(wrong[0], want) {
			t.Errorf("%s: told %q; want %q", text, wrong, want)
		}
	}
	right := "`go test -run 'TestWire/(readers|a-slot)' ./memlock ./filelock`, [it](../README.md), `redislock/lua/`, `ls --force`,\n" +
		"`pawl run -q -E 0 -n nightly -- ./job --other`, `$PAWL_TOKEN`, `Options.TTL`, `pawl.Client.Acquire`, `Slots(3)`, `ErrHeld`, `make quick`\n"
	if wrong := tr.mistakes("docs/page.md", right); wrong != nil {
		t.Errorf("told %q of what is right", wrong)
	}
}
