// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/driver"
)

// traps are what another user of a shared directory can put in the place of a lock file.
var traps = map[string]func(t *testing.T, path string) error{
	"FIFO":      func(_ *testing.T, path string) error { return mkfifo(path) },
	"directory": func(_ *testing.T, path string) error { return os.Mkdir(path, 0o777) },
	"link":      func(_ *testing.T, path string) error { return os.Symlink("/etc/passwd", path) },
	"socket": func(t *testing.T, path string) error {
		l, err := net.Listen("unix", path)
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	},
	"file with a lease": func(t *testing.T, path string) error { // whose owner the kernel asks first
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		t.Cleanup(func() { f.Close() })
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
		return err
	},
}

// TestTraps: what is no lock file keeps nobody waiting, is told by its name, and hides no other lock.
func TestTraps(t *testing.T) {
	for what, set := range traps {
		s := open(t, t.TempDir())
		g := acquire(t, s, "deploy")
		path := s.path("trap", lockSuffix)
		if err := set(t, path); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		told := func(call string, err error, unread bool) {
			t.Helper()
			if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %s = %v; want ErrUnavailable with %s", what, call, err, path)
			}
			if names, only := driver.Unread(err); unread && (!only || len(names) != 1 || names[0].Name != "trap") {
				t.Errorf("%s: %s cannot read %q (%v); want the trap only", what, call, names, only)
			}
		}
		inTime(t, what, func(ctx context.Context) {
			infos, err := s.List(ctx, "")
			if told("List", err, true); len(infos) != 1 || infos[0].Name != "deploy" {
				t.Errorf("%s: List = %v; want deploy", what, infos)
			}
			_, err = s.Inspect(ctx, "trap")
			told("Inspect", err, true)
			_, err = s.TryAcquire(ctx, request("trap"))
			told("TryAcquire", err, false)
			_, err = s.Acquire(ctx, asked("trap", "shared"))
			told("Acquire", err, false)
			told("Break", s.Break(ctx, "trap", "lease", &driver.Holder{}, "x"), false)
		})
		release(t, g)
	}
}

// TestTrapsAroundALock: what is in the place of the files around a lock spoils that name only.
func TestTrapsAroundALock(t *testing.T) {
	for _, suffix := range []string{fifoSuffix, heldSuffix, queueSuffix, gateSuffix} {
		for what, set := range traps {
			s := open(t, t.TempDir())
			g := acquire(t, s, "deploy")
			release(t, acquire(t, s, "trap"))
			os.Remove(s.path("trap", suffix))
			if err := set(t, s.path("trap", suffix)); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			what += " as " + suffix
			inTime(t, what, func(ctx context.Context) {
				infos, err := s.List(ctx, "")
				if _, only := driver.Unread(err); len(infos) != 1 || infos[0].Name != "deploy" || err != nil && !only {
					t.Errorf("%s: List = %v, %v; want deploy", what, infos, err)
				}
				_, _ = s.Inspect(ctx, "trap")
				for _, kind := range []string{"", "shared", "slots"} {
					if g, err := s.TryAcquire(ctx, asked("trap", kind)); err == nil {
						_ = g.Release(ctx)
					}
				}
			})
			release(t, g)
		}
	}
}

// TestManyTraps: a list that cannot read many files does not grow with their number.
func TestManyTraps(t *testing.T) {
	s := open(t, t.TempDir())
	g := acquire(t, s, "deploy")
	defer release(t, g)
	for i := range 3 * maxUnread {
		if err := mkfifo(s.path(fmt.Sprint("trap", i), lockSuffix)); err != nil {
			t.Fatal(err)
		}
	}
	infos, err := s.List(context.Background(), "")
	if names, only := driver.Unread(err); !only || len(infos) != 1 || len(names) != maxUnread+1 || !strings.Contains(err.Error(), fmt.Sprint(2*maxUnread, " more")) {
		t.Errorf("List = %v, %v; want deploy, and errors for %d of the others", infos, err, maxUnread)
	}
}

// TestOwner: in a directory that is not shared, a file of another user is no lock file. It may be left from when the
// directory was shared, and its owner could take the flock.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a file of another user")
	}
	s := open(t, t.TempDir())
	release(t, acquire(t, s, "deploy"))
	path := s.path("deploy", lockSuffix)
	if err := os.Chown(path, 4711, 4711); err != nil {
		t.Fatal(err)
	}
	if _, err := s.TryAcquire(context.Background(), request("deploy")); !errors.Is(err, errOwner) ||
		!strings.Contains(err.Error(), fmt.Sprintf("type chown %d '%s'", os.Geteuid(), path)) || strings.Contains(err.Error(), "delete") {
		t.Errorf("TryAcquire = %v; want %v, and that %s be given back, not deleted", err, errOwner, path)
	}
	d, err := NewStore(s.dir, &Options{AllowShared: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	release(t, acquire(t, clientOf(d), "deploy"))
}

// inTime fails the test if f does not return: it is in a system call then.
func inTime(t *testing.T, what string, f func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	select {
	case <-done:
	case <-time.After(40 * time.Second):
		t.Fatalf("%s: nothing has come back for 40 s", what)
	}
}
