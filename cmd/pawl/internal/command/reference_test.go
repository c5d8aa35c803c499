// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
)

// TestReference: docs/command.md has every exit code with its word, every variable, every field of JSON and
// every event, and no others.
func TestReference(t *testing.T) {
	page := read(t, "../../../../docs/command.md")
	for code, word := range exit.Kinds {
		if row := fmt.Sprintf("| %d | %s | ", code, word); !strings.Contains(page, row) {
			t.Errorf("no row %q", row)
		}
	}
	_, environment, _ := strings.Cut(page, "## Environment")
	environment, fields, _ := strings.Cut(environment, "## JSON")
	fields, events, _ := strings.Cut(fields, "The events of `--events` are ")
	events, _, _ = strings.Cut(events, ".")

	source := sources(t, "acquire", "admin", "bench", "command", "doctor", "manual", "report", "show") + read(t, "../../../../driver/info.go")
	compare(t, "field", find(source, "json:\"([a-z_0-9]+)"), find(fields, "`([a-z_0-9]+)`"),
		"schema", "ls", "show", "wait", "watch", "acquire", "renew", "release", "break", "bless", "nodes", "doctor", "bench", "version", "run", "elect", "once", "hold")
	source += sources(t, "nested", "run", "stores", "top", "cli")
	compare(t, "variable", find(source, `"(?:[^"]*\$)?(PAWL_[A-Z_]+|NO_COLOR)[="]`), find(environment, "`(PAWL_[A-Z_]+|NO_COLOR)`"))
	compare(t, "event", append(find(source, `Event\{Event: "([a-z]+)"`), find(source, `About\("([a-z]+)"`)...), find(events, "([a-z]{4,})"))
}

// sources returns the product source of packages of the command.
func sources(t *testing.T, packages ...string) string {
	t.Helper()
	var all strings.Builder
	for _, p := range packages {
		files, err := filepath.Glob("../" + p + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", p, files, err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				all.WriteString(read(t, file))
			}
		}
	}
	return all.String()
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func find(text, pattern string) (words []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		words = append(words, m[1])
	}
	return words
}

// compare reports words that only one of the two has. others are on the page for another reason.
func compare(t *testing.T, what string, source, page []string, others ...string) {
	t.Helper()
	for _, w := range source {
		if !slices.Contains(page, w) && !slices.Contains(others, w) {
			t.Errorf("the page has no %s %s", what, w)
		}
	}
	for _, w := range page {
		if !slices.Contains(source, w) && !slices.Contains(others, w) {
			t.Errorf("the source has no %s %s", what, w)
		}
	}
}
