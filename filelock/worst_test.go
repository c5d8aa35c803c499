// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
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
	got := s.waitFor(t, "deploy", "")
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
	got := s.waitFor(t, "deploy", "")
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
		_, err := s.Acquire(context.Background(), req)
		errs <- err
	}()
	eventually(t, "it waits", func() bool { return queueLen(s, "deploy") == 1 })
	failures.Store(1 << 40)
	release(t, g)
	var silent *driver.SilentError
	if err := <-errs; !errors.As(err, &silent) || !errors.Is(silent.Err, unix.EMFILE) || !strings.Contains(err.Error(), "refused requests") {
		t.Errorf("after a TTL of trouble: %v; want a SilentError with the cause", err)
	}
	if n := queueLen(s, "deploy"); n != 0 {
		t.Errorf("%d places are left", n)
	}
}

// TestTroubleInTheQueue: a call that fails after it has joined the queue leaves it.
func TestTroubleInTheQueue(t *testing.T) {
	s := open(t, t.TempDir())
	g := acquire(t, open(t, s.dir), "deploy")
	var tries atomic.Int64
	tryFlock = func(f *os.File) (bool, error) {
		if tries.Add(1) > 1 { // the first one is made before it joins
			return false, unix.EMFILE
		}
		return flock(f)
	}
	defer func() { tryFlock = flock }()
	if _, err := s.Acquire(t.Context(), request("deploy")); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Acquire = %v; want ErrUnavailable", err)
	}
	if n := queueLen(s, "deploy"); n != 0 {
		t.Errorf("%d places are left", n)
	}
	release(t, g)
}

// TestAskedBackEarly: a lease was asked for back before its client knew that it had it. The client looks again, and
// gets another one.
func TestAskedBackEarly(t *testing.T) {
	s, req := open(t, t.TempDir()), request("deploy")
	ask := func() driver.Answer {
		t.Helper()
		ans, err := s.store.Ask(t.Context(), req)
		if err != nil || !ans.Granted {
			t.Fatalf("Ask = %+v, %v; want a grant", ans, err)
		}
		return ans
	}
	first := ask()
	if again := ask(); again.Token != first.Token || again.Since != first.Since {
		t.Errorf("a repeated request is granted %+v after %+v", again, first)
	}
	s.held(req.Lease).lose(&driver.LostError{Reason: driver.Broken})
	if second := ask(); second.Token <= first.Token+first.Spare {
		t.Errorf("token %d after one that was asked for back, which had %d to %d", second.Token, first.Token, first.Token+first.Spare)
	}
	if found, err := s.End(t.Context(), driver.Ref{Name: "deploy", Lease: req.Lease}, driver.End{}); !found || err != nil {
		t.Errorf("End = %v, %v; want the lease", found, err)
	}
	release(t, acquire(t, s, "deploy"))
}
