// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	def, err := DefaultDir()
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"file:///locks": "/locks", "file:/locks": "/locks", "file://localhost/a%3Fb": "/a?b", "file:": def, "file:///locks?shared=true": "/locks for all",
	} {
		dir, shared, err := ParseURL(url)
		if shared {
			dir += " for all"
		}
		if err != nil || dir != want {
			t.Errorf("%s: %s, %v; want %s", url, dir, err, want)
		}
	}
	for url, want := range map[string]string{
		"file:relative/dir":        "is relative",
		"file://me:s3cret@h/locks": "another machine",
		"file:///locks?s3cret=1":   "?shared=true",
		"file:///locks?ttl=5s":     "set Options.TTL in Go, or --ttl of the command",
		"file:?shared=true":        "for one user alone",
		"file:%zz":                 "badly escaped",
		"/var/lib/app":             "not a URL",
	} {
		if _, _, err := ParseURL(url); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v; want %s", url, err, want)
		}
	}
}
