// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

// TestHoldersWithoutRecord: whoever looks is never told that nobody has a lock that somebody has.
func TestHoldersWithoutRecord(t *testing.T) {
	ctx := context.Background()
	for what, spoil := range map[string]func(s client, path string) (end func()){
		"another program's flock": func(s client, path string) func() {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := flock(f); !ok {
				t.Fatalf("flock: %v", err)
			}
			return func() { f.Close() }
		},
		"a record that was cut off": func(s client, path string) func() {
			g := acquire(t, s, "deploy")
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			return func() { _ = g.Release(ctx) }
		},
		"a presence that was deleted": func(s client, path string) func() {
			g := acquire(t, s, "deploy")
			if err := os.Remove(strings.TrimSuffix(path, lockSuffix) + fifoSuffix); err != nil {
				t.Fatal(err)
			}
			return func() { _ = g.Release(ctx) }
		},
	} {
		s := open(t, t.TempDir())
		if err := acquire(t, s, "deploy").Release(ctx); err != nil {
			t.Fatal(err)
		}
		path := s.path("deploy", lockSuffix)
		end := spoil(s, path)
		see := func(when string, want int) {
			t.Helper()
			info, err := s.Inspect(ctx, "deploy")
			if err != nil {
				t.Fatal(err)
			}
			infos, err := s.List(ctx, "")
			if err != nil {
				t.Fatal(err)
			}
			var listed []driver.Held
			for _, i := range infos {
				listed = append(listed, i.Holders...)
			}
			for how, h := range map[string][]driver.Held{"Inspect": info.Holders, "List": listed} {
				if len(h) != want || want > 0 && h[0].PID != os.Getpid() && h[0].Who != "test" {
					t.Errorf("%s%s: %s tells of %v; want %d holders: this process, %d, or what it has on record", what, when, how, h, want, os.Getpid())
				}
			}
		}
		see("", 1)
		end()
		see(", and over", 0)
	}
}

// TestDamagedIsListed: nobody can have the name, so it is told, and the others as well.
func TestDamagedIsListed(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir())
	for _, name := range []string{"a", "b", "c"} {
		g := acquire(t, s, name)
		defer g.Release(ctx)
	}
	if err := acquire(t, s, "spoilt").Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path("spoilt", lockSuffix), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	infos, err := s.List(ctx, "")
	if len(infos) != 3 || !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "spoilt.lock") {
		t.Errorf("List = %v, %v; want three and an error about the fourth", infos, err)
	}
}
