// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fence

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

const childEnv = "PAWL_FENCE_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		childMain(dir)
		return
	}
	os.Exit(m.Run())
}

// childMain raises the token by one again and again. It says which one it is
// about to write with, and that it has.
func childMain(dir string) {
	d, err := OpenDir(dir)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	token, _ := strconv.ParseUint(os.Getenv("PAWL_TOKEN"), 10, 64)
	for ; ; token++ {
		if err := d.Do(context.Background(), "x", pawl.Token(token), func() error {
			fmt.Println("in", token)
			return nil
		}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		time.Sleep(rand.N(2 * time.Millisecond)) // for others to get in
	}
}

// child is another process that uses the same directory.
func child(t *testing.T, dir string, token pawl.Token) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir, fmt.Sprintf("PAWL_TOKEN=%d", token))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, bufio.NewScanner(out)
}

// TestKilledProcess: a process that is killed with SIGKILL at any moment leaves a
// file that knows every token that it wrote with.
func TestKilledProcess(t *testing.T) {
	dir := t.TempDir()
	var last pawl.Token
	for range 25 {
		cmd, lines := child(t, dir, last+1)
		if !lines.Scan() {
			t.Fatal("the child says nothing")
		}
		kill := time.AfterFunc(rand.N(20*time.Millisecond), func() { cmd.Process.Kill() })
		for ok := true; ok; ok = lines.Scan() {
			if _, err := fmt.Sscanf(lines.Text(), "in %d", &last); err != nil {
				t.Fatalf("the child says %q", lines.Text())
			}
		}
		kill.Stop()
		cmd.Wait()
		d := openTestDir(t, dir)
		if err := d.Do(t.Context(), "x", last-1, nil); last > 1 && !errors.Is(err, ErrStale) {
			t.Fatalf("after a write with %d and kill -9, %d: %v", last, last-1, err)
		}
		// One that was not told of yet may have been raised.
		last++
		if err := d.Do(t.Context(), "x", last, nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d tokens", last)
	if names, _ := filepath.Glob(dir + "/*"); len(names) > 3 {
		t.Errorf("left behind: %q", names)
	}
}

// TestTwoGuardsOnOneDirectory: the flock holds between them.
func TestTwoGuardsOnOneDirectory(t *testing.T) {
	dir := t.TempDir()
	a, b := openTestDir(t, dir), openTestDir(t, dir)
	err := a.Do(t.Context(), "x", 33, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		return b.Do(ctx, "x", 34, func() error { t.Error("two at a time"); return nil })
	})
	if err != context.DeadlineExceeded {
		t.Errorf("Do in Do of another: %v", err)
	}
	if err := b.Do(t.Context(), "x", 34, nil); err != nil {
		t.Fatal(err)
	}
	if err := a.Do(t.Context(), "x", 33, nil); !errors.Is(err, ErrStale) {
		t.Errorf("what another guard has seen: %v", err)
	}
}

// TestDamagedFile: a file that is damaged in any one byte, cut off anywhere or
// empty is refused. It is never taken for one that has seen nothing.
func TestDamagedFile(t *testing.T) {
	dir := t.TempDir()
	d := openTestDir(t, dir)
	if err := d.Do(t.Context(), "x\n", 34, nil); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(dir + "/*.token")
	if len(files) != 1 {
		t.Fatal(files)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	refused := func(content []byte, what string) {
		t.Helper()
		if err := os.WriteFile(files[0], content, 0o600); err != nil {
			t.Fatal(err)
		}
		err := openTestDir(t, dir).Do(t.Context(), "x\n", 99, func() error { t.Error("written"); return nil })
		if err == nil || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), `"x\n"`) || errors.Is(err, ErrStale) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range whole {
		refused(whole[:i], fmt.Sprintf("cut off after %d bytes", i))
		torn := bytes.Clone(whole)
		torn[i] ^= 1 << rand.N(8)
		refused(torn, fmt.Sprintf("byte %d is %q", i, torn[i]))
	}
	refused(make([]byte, 4096), "zeros")
	refused(append(whole, whole...), "twice")
	refused([]byte(line("another", 34)), "another resource's")
	if err := os.WriteFile(files[0], whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Do(t.Context(), "x\n", 33, nil); !errors.Is(err, ErrStale) {
		t.Errorf("whole again: %v", err)
	}
}

// TestNothingIsWrittenBeforeTheTokenIsOnTheDisk: an error of the disk keeps the
// function from being called, also when the same token comes again.
func TestNothingIsWrittenBeforeTheTokenIsOnTheDisk(t *testing.T) {
	realFile, realDir := syncFile, syncDir
	defer func() { syncFile, syncDir = realFile, realDir }()
	broken := errors.New("the disk is broken")
	var files, dirs int
	var fail error
	syncFile = func(f *os.File) error { files++; return cmp.Or(fail, realFile(f)) }
	syncDir = func(path string) error { dirs++; return cmp.Or(fail, realDir(path)) }
	dir := t.TempDir()
	do := func(d *Dir, token pawl.Token) (called bool, err error) {
		err = d.Do(t.Context(), "x", token, func() error { called = true; return nil })
		return called, err
	}
	d := openTestDir(t, dir)
	expect := func(what string, wantFiles, wantDirs int) {
		t.Helper()
		if files != wantFiles || dirs != wantDirs {
			t.Errorf("%s: %d files and %d directories were synced, want %d and %d", what, files, dirs, wantFiles, wantDirs)
		}
		files, dirs = 0, 0
	}
	if called, err := do(d, 33); !called || err != nil {
		t.Fatal(called, err)
	}
	expect("a new token", 1, 1)
	do(d, 33)
	expect("the same token", 0, 0)

	fail = broken
	if called, err := do(d, 34); called || !errors.Is(err, broken) {
		t.Errorf("sync fails: called %v, %v", called, err)
	}
	fail = nil
	files, dirs = 0, 0
	if called, err := do(d, 33); !called || err != nil {
		t.Errorf("the old token, as the new one was never on the disk: %v", err)
	}

	syncDir = func(path string) error { dirs++; return broken }
	for range 2 { // renamed already the second time
		if called, err := do(d, 35); called || !errors.Is(err, broken) {
			t.Errorf("sync of the directory fails: called %v, %v", called, err)
		}
	}
	syncDir = func(path string) error { dirs++; return realDir(path) }
	files, dirs = 0, 0
	if called, err := do(d, 35); !called || err != nil {
		t.Errorf("the disk is well again: %v", err)
	}
	expect("a token that was renamed but not synced", 0, 1)
	do(openTestDir(t, dir), 35)
	expect("a process that finds the token", 0, 1)
	for _, f := range mustGlob(t, dir+"/*.token") {
		os.Remove(f)
	}
	do(d, 35)
	expect("the file was deleted", 1, 1)
}

func mustGlob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %q, %v", pattern, names, err)
	}
	return names
}

func TestOpenDirRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, hint := range map[string]string{file: "not a directory", file + "2": "make it first"} {
		if _, err := OpenDir(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), hint) {
			t.Errorf("OpenDir(%s): %v; want %q", path, err, hint)
		}
	}
}
