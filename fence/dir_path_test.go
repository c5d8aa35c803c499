// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fence

import (
	"errors"
	"os"
	"testing"
)

// TestDirectoryOfItsOwn: a guard stays in its directory when the process goes to another.
func TestDirectoryOfItsOwn(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("tokens", 0o700); err != nil {
		t.Fatal(err)
	}
	d := openTestDir(t, "tokens")
	if err := d.Do(t.Context(), "x", 34, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("elsewhere/tokens", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir("elsewhere")
	if err := d.Do(t.Context(), "x", 33, func() error { t.Error("written"); return nil }); !errors.Is(err, ErrStale) {
		t.Errorf("a smaller token after os.Chdir: %v", err)
	}
}

// TestLinksAreNotFollowed: what is written goes to no file that somebody else has named.
func TestLinksAreNotFollowed(t *testing.T) {
	dir := t.TempDir()
	d := openTestDir(t, dir)
	if err := d.Do(t.Context(), "x", 33, nil); err != nil {
		t.Fatal(err)
	}
	theirs := t.TempDir() + "/theirs"
	if err := os.WriteFile(theirs, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(theirs, mustGlob(t, dir+"/*.token")[0]+".new"); err != nil {
		t.Fatal(err)
	}
	if err := d.Do(t.Context(), "x", 34, nil); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(theirs); string(text) != "precious" {
		t.Errorf("another file is now %q, %v", text, err)
	}
	if err := openTestDir(t, dir).Do(t.Context(), "x", 33, nil); !errors.Is(err, ErrStale) {
		t.Errorf("a smaller token: %v", err)
	}
	lock := mustGlob(t, dir+"/*.lock")[0]
	if err := errors.Join(os.Remove(lock), os.Symlink(theirs, lock)); err != nil {
		t.Fatal(err)
	}
	if err := d.Do(t.Context(), "x", 34, nil); err == nil {
		t.Error("the lock of another file is taken")
	}
}
