// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The pictures in the documents are what the program draws. PAWL_UPDATE=1 draws them anew.
func TestPictures(t *testing.T) {
	for _, c := range []struct{ file, verdict, flags string }{
		{"restart-unsafe.svg", "UNSAFE: two clients held the lock at the same time", "--scenario restart --unsafe"},
		{"restart-safe.svg", "SAFE: never more than one client held the lock", "--scenario restart"},
	} {
		t.Run(c.file, func(t *testing.T) {
			drawn := filepath.Join(t.TempDir(), c.file)
			var out bytes.Buffer
			if err := run(append(strings.Fields(c.flags), "--svg", drawn), &out, io.Discard); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(out.String(), c.verdict) {
				t.Errorf("printed %s; want it to begin with %q", &out, c.verdict)
			}
			got, err := os.ReadFile(drawn)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Join("..", "..", "docs", c.file)
			if os.Getenv("PAWL_UPDATE") != "" {
				if err := os.WriteFile(name, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s is not what simulate %s draws; draw it anew with PAWL_UPDATE=1 go test ./lab/simulate", name, c.flags)
			}
		})
	}
}

// Each scenario breaks its rule only without its protection.
func TestScenariosNeedTheirProtection(t *testing.T) {
	for _, name := range names() {
		var safe, unsafe bytes.Buffer
		if err := run([]string{"--scenario", name}, &safe, io.Discard); err != nil || !strings.HasPrefix(safe.String(), "SAFE") {
			t.Errorf("%s: %v, %s", name, err, &safe)
		}
		if err := run([]string{"--scenario", name, "--unsafe"}, &unsafe, io.Discard); err != nil || !strings.HasPrefix(unsafe.String(), "UNSAFE") {
			t.Errorf("%s --unsafe: %v, %s", name, err, &unsafe)
		}
	}
}
