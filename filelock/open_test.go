// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl"
)

// TestOpenMakesOneDirectory: a path that is misspelt is an error, and so is a URL: it would be a directory below the one
// that each process is in.
func TestOpenMakesOneDirectory(t *testing.T) {
	base := t.TempDir()
	t.Chdir(base)
	for dir, want := range map[string]string{
		filepath.Join(base, "typo", "locks"): "the directory " + filepath.Join(base, "typo") + " does not exist",
		"locks":                              "is relative",
		"file:///var/lock/app":               "is a URL: give the path",
	} {
		if _, err := Open(dir, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%q) = %v; want it to say that %s", dir, err, want)
		}
	}
	if left, _ := os.ReadDir(base); len(left) > 0 {
		t.Errorf("it has made %v", left)
	}
	dir := filepath.Join(base, "locks")
	c, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v; want 0700", fi.Mode(), err)
	}
}

func TestUnsafeDir(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	made := func(name string, mode fs.FileMode) string {
		dir := filepath.Join(base, name)
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	open, sticky := made("open", 0o777), made("sticky", 0o777|os.ModeSticky)
	for dir, hint := range map[string]string{
		file:                       "directory",
		filepath.Join(file, "sub"): "not a directory",
		open:                       "chmod 700 '" + open + "'",
		sticky:                     "such as '" + filepath.Join(sticky, "locks") + "'",
	} {
		_, err := Open(dir, nil)
		if err == nil || !strings.Contains(err.Error(), hint) || !strings.Contains(err.Error(), strings.TrimSuffix(dir, "/sub")) {
			t.Errorf("Open(%s) = %v; want an error with %q", dir, err, hint)
		}
	}
	if os.Geteuid() == 0 {
		foreign := made("foreign", 0o700)
		if err := os.Chown(foreign, 12345, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(foreign, nil); err == nil || !strings.Contains(err.Error(), "user 12345") {
			t.Errorf("Open of another user's directory = %v; want an error", err)
		}
	}
}

// TestSharedIsNotMade: whoever comes first would shut the others out.
func TestSharedIsNotMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pawl")
	_, err := Open(dir, &Options{AllowShared: true})
	if err == nil || !strings.Contains(err.Error(), "install -d -m 1777 '"+dir+"'") || !strings.Contains(err.Error(), "d "+dir+" 1777") {
		t.Errorf("Open = %v; want an error that says how to make the directory", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory was made")
	}
	if _, err := Open("", &Options{AllowShared: true}); err == nil || !strings.Contains(err.Error(), "name the one that is shared") {
		t.Errorf("Open of the default directory = %v; want an error", err)
	}
}

// TestShared: in a shared directory everybody can use the files, whatever the
// umask of their maker.
func TestShared(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	dir := t.TempDir()
	os.Chmod(dir, 0o777|fs.ModeSticky)
	d, err := NewStore(dir, &Options{AllowShared: true})
	if err != nil {
		t.Fatal(err)
	}
	s := clientOf(d)
	g := acquire(t, s, "deploy")
	p, err := s.join(request("deploy"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{
		s.path("deploy", lockSuffix):  0o666,
		s.path("deploy", fifoSuffix):  0o666,
		s.path("deploy", queueSuffix): 0o777,
		p.queue.path(p.ticket):        0o666,
	} {
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %v", path, fi.Mode(), err, want)
		}
	}
	p.end()
	release(t, g)
	if names, _ := filepath.Glob(filepath.Join(dir, tempPrefix+"*")); len(names) > 0 {
		t.Errorf("%v are left", names)
	}
}

func TestDefaultDir(t *testing.T) {
	dir, err := DefaultDir()
	if err != nil {
		t.Fatal(err)
	}
	// What differs between a session and a job of cron must not matter.
	for _, env := range []string{"XDG_RUNTIME_DIR", "TMPDIR", "HOME", "USER"} {
		t.Setenv(env, t.TempDir())
	}
	if d, err := NewStore("", nil); err != nil || clientOf(d).dir != dir {
		t.Errorf("in another environment the directory is %v (%v), not %s", d, err, dir)
	}
}

func TestDefaultDirOfSomebodyElse(t *testing.T) {
	tmp := t.TempDir()
	dir, err := defaultDir(tmp)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(dir)
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := defaultDir(tmp); err == nil || !strings.Contains(err.Error(), "not a directory of this user") {
		t.Errorf("a link in the temporary directory: %v; want an error", err)
	}
}

func TestWarnNetwork(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	dir := t.TempDir()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	// No network file system is at hand: take this one for one.
	defer func(was map[uint32]string) { networkMagic = was }(networkMagic)
	networkMagic = map[uint32]string{uint32(st.Type): "test"}
	for range 2 {
		if _, err := NewStore(dir, &Options{Options: pawl.Options{Logger: logger}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "network file system"); n != 1 {
		t.Errorf("%d warnings; want one: %s", n, &log)
	}
}

// TestFileLimit: a write that fails changes nothing, for a new name and for an
// old one, and does no harm to what comes after.
func TestFileLimit(t *testing.T) {
	s := open(t, t.TempDir())
	release(t, acquire(t, s, "old"))
	for _, name := range []string{"new", "old"} {
		p := start(t, "full", s.dir, name)
		if said := strings.Join(p.line("store unavailable"), " "); !strings.Contains(said, "file too large") {
			t.Errorf("%s: %q; want the cause", name, said)
		}
		p.line("<nil>")
		p.kill()
		release(t, acquire(t, s, name))
	}
}

func TestListHashed(t *testing.T) {
	s := open(t, t.TempDir())
	long := strings.Repeat("Ä", 400)
	g := acquire(t, s, long)
	free := acquire(t, s, long+"2")
	release(t, free)
	infos, err := s.List(context.Background(), "Ä")
	if err != nil || len(infos) != 1 || infos[0].Name != long || len(infos[0].Holders) != 1 {
		t.Errorf("List = %+v, %v; want the long name", infos, err)
	}
	release(t, g)
}
