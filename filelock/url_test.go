// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawl-go/pawl"
)

func TestOpenByURL(t *testing.T) {
	dir := t.TempDir()
	one, err := pawl.Open(t.Context(), "file://"+dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	other, err := pawl.Open(t.Context(), "file:"+dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := one.TryAcquire(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := other.TryAcquire(t.Context(), "x"); !errors.Is(err, pawl.ErrHeld) {
		t.Errorf("the other client gets %v; want ErrHeld", err)
	}
}

func TestURLRefusals(t *testing.T) {
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
