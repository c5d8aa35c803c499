// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/driver"
)

// TestForgottenGrant: a lease that is held for the life of the process, and that
// nobody has a reference to, is not given back by the garbage collector.
func TestForgottenGrant(t *testing.T) {
	s := open(t, t.TempDir())
	if g := acquire(t, s, "daemon"); g.Token() == 0 {
		t.Fatal("no token")
	}
	for range 3 {
		runtime.GC() // finalizers close files that are out of reach
		mustBusy(t, s, "daemon")
	}
}

// waiting starts an Acquire and returns when it stands in the queue.
func waiting(t *testing.T, s *store, name string) <-chan driver.Grant {
	t.Helper()
	got := make(chan driver.Grant, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		g, err := s.Acquire(ctx, request(name))
		if err != nil {
			t.Errorf("Acquire = %v", err)
		}
		got <- g
	}()
	eventually(t, "it waits", func() bool { return queueLen(s, name) == 1 })
	return got
}

// TestKeptPresence: a child of the holder has closed the lock that it inherited,
// but not the FIFO.
func TestKeptPresence(t *testing.T) {
	s := open(t, t.TempDir())
	g := acquire(t, s, "deploy")
	kept, err := os.OpenFile(s.path("deploy", fifoSuffix), os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	got := waiting(t, s, "deploy")
	release(t, g)
	release(t, come(t, got))
}

// TestPassingTrouble: a waiter does not give up at the first thing that fails,
// nor does it go on for ever.
func TestPassingTrouble(t *testing.T) {
	s := open(t, t.TempDir())
	var failures atomic.Int64 // to come
	tryFlock = func(f *os.File) (bool, error) {
		if failures.Add(-1) >= 0 {
			return false, unix.EMFILE
		}
		return flock(f)
	}
	defer func() { tryFlock = flock }()
	g := acquire(t, s, "deploy")
	got := waiting(t, s, "deploy")
	failures.Store(3)
	release(t, g)
	g = come(t, got)
	if n := failures.Load(); n >= 0 {
		t.Errorf("%d failures are left", n)
	}

	req := request("deploy")
	req.TTL = 200 * time.Millisecond
	errs := make(chan error, 1)
	go func() {
		_, err := s.wait(context.Background(), req)
		errs <- err
	}()
	eventually(t, "it waits", func() bool { return queueLen(s, "deploy") == 1 })
	failures.Store(1 << 40)
	release(t, g)
	if err := <-errs; !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, unix.EMFILE) {
		t.Errorf("after a TTL of trouble: %v; want ErrUnavailable with the cause", err)
	}
}
