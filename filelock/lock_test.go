// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestDeletedBeforeLock: a file that is deleted after it was opened excludes
// nobody, so it must not be taken for the lock.
func TestDeletedBeforeLock(t *testing.T) {
	s := open(t, t.TempDir())
	path := s.path("deploy", lockSuffix)
	opened := 0
	tryFlock = func(f *os.File) (bool, error) {
		if opened++; opened <= 2 {
			os.Remove(path)
		}
		return flock(f)
	}
	defer func() { tryFlock = flock }()
	g := acquire(t, s, "deploy")
	if opened != 3 || !sameFile(s.hold(g).lock) {
		t.Errorf("after %d attempts the lock is on a file that is gone", opened)
	}
	mustBusy(t, s, "deploy")
	release(t, g)
}

// TestDeletedWhileHeld: the holder finds out, by itself or on a call.
func TestDeletedWhileHeld(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	g, told, slot := acquire(t, s, "deploy"), acquire(t, s, "told"), acquire(t, s, "slot", "slots2")
	lost := make(chan error, 1)
	told.OnLost(func(err error) { lost <- err })
	os.Remove(s.path("deploy", lockSuffix))
	os.Remove(s.path("told", lockSuffix))
	os.Remove(s.path("slot", slotSuffix+"0"))
	for what, g := range map[string]*participant.Lease{"lock": g, "slot": slot} {
		if _, err := g.Renew(context.Background(), time.Minute); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Renew without the file of the %s = %v; want ErrLost", what, err)
		}
	}
	select {
	case err := <-lost:
		var l *driver.LostError
		if !errors.As(err, &l) || l.Reason != driver.Gone {
			t.Errorf("lost: %v; want Gone", err)
		}
	case <-time.After(patience):
		t.Error("the holder was not told")
	}
	for _, g := range []*participant.Lease{g, told, slot} {
		if err := g.Release(context.Background()); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Release = %v; want ErrLost", err)
		}
	}
}

// TestForeignFlock: flock(1) excludes us and we it, though it tells nobody.
func TestForeignFlock(t *testing.T) {
	s := open(t, t.TempDir())
	path := s.path("deploy", lockSuffix)
	f, err := s.open(path)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := flock(f); !ok {
		t.Fatal(err)
	}
	_, err = s.TryAcquire(context.Background(), request("deploy"))
	var held *driver.HeldError
	if !errors.As(err, &held) || len(held.Info.Holders) != 1 || held.Info.Holders[0].Lease != "" || held.Info.Holders[0].Token != 0 {
		t.Errorf("TryAcquire = %v; want ErrHeld by somebody who has no lease", err)
	}
	got := s.waitFor(t, "deploy", "")
	f.Close()
	g := come(t, got)
	if f, err = s.open(path); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if ok, _ := flock(f); ok {
		t.Error("flock(1) would get in")
	}
	release(t, g)
	if ok, err := flock(f); !ok {
		t.Errorf("flock(1) would not get in: %v", err)
	}
}

// TestQuickCancel cancels waiters at every moment and finds nothing left.
func TestQuickCancel(t *testing.T) {
	s := open(t, t.TempDir())
	g := acquire(t, s, "deploy")
	before := fds(t)
	for i := range 400 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*5*time.Microsecond)
		if i%8 == 7 { // race with a release
			time.AfterFunc(time.Duration(i)*5*time.Microsecond, func() { g.Release(context.Background()) })
		}
		next, err := s.Acquire(ctx, request("deploy"))
		switch {
		case err == nil:
			g = next
		case !errors.Is(err, context.DeadlineExceeded) || next != nil:
			t.Fatalf("Acquire = %v, %v; want the context's error", next, err)
		case queueLen(s, "deploy") > 0: // before the garbage collector closes what nobody refers to
			t.Fatal("a place in the queue is left")
		case i%8 == 7:
			eventually(t, "the lock is free", func() bool {
				next, err := s.TryAcquire(context.Background(), request("deploy"))
				if err == nil {
					g = next
				}
				return err == nil
			})
		}
		cancel()
	}
	if names, err := os.ReadDir(s.path("deploy", queueSuffix)); len(names) != 0 || err != nil {
		t.Errorf("the queue has %v, %v; want nothing", names, err)
	}
	eventually(t, "no file is left open", func() bool { return fds(t) <= before })
	release(t, g)
}

// TestNoise: what is not a message for the holder does nothing.
func TestNoise(t *testing.T) {
	s := open(t, t.TempDir())
	g := acquire(t, s, "deploy")
	lost := make(chan error, 1)
	g.OnLost(func(err error) { lost <- err })
	fifo, err := os.OpenFile(s.path("deploy", fifoSuffix), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	noise := strings.Repeat("x", 3*maxMessage) + "\n\n{}\n[1]\n{\"break\":\"another\"}\n"
	if _, err := fifo.WriteString(noise); err != nil {
		t.Fatal(err)
	}
	if len(lost) != 0 {
		t.Errorf("lost: %v", <-lost)
	}
	if _, err := fifo.Write(message{Break: s.hold(g).st.rec.Lease, Why: "now"}.encode()); err != nil {
		t.Fatal(err)
	}
	if err := <-lost; !strings.Contains(err.Error(), `"now"`) {
		t.Errorf("lost: %v", err)
	}
	release(t, g)
}
