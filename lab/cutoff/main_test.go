// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The holder's context ends before the next holder starts, and the README shows a run of this program.
func TestContextEndsBeforeTheNextHolder(t *testing.T) {
	var out strings.Builder
	s, err := run(t.Context(), &out)
	if err != nil {
		t.Fatal(err)
	}
	if s.ended == 0 || s.granted <= s.ended {
		t.Errorf("the context ended after %v, and the next holder started after %v", s.ended, s.granted)
	}
	for _, page := range []string{"../../README.md", "../../docs/README.zh-CN.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		_, shown, _ := strings.Cut(string(text), "$ go run ./lab/cutoff\n")
		shown, _, _ = strings.Cut(shown, "```")
		if got, want := withoutNumbers(out.String()), withoutNumbers(shown); got != want {
			t.Errorf("%s shows\n%swant\n%s", page, want, got)
		}
	}
}

// withoutNumbers leaves out what differs from run to run: times, tokens, and how the last renewal failed.
func withoutNumbers(s string) string {
	return regexp.MustCompile(` *[0-9.]+| \(last renewal.*`).ReplaceAllString(s, "")
}
