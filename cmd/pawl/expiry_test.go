// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/memlock"
)

// The store "memory" has leases that expire, and cannot be reached for a
// renewal while the file "cut" exists. It is in no pawl but that of the tests.
func init() {
	if dir := os.Getenv("W"); dir != "" && os.Getenv("PAWL_TEST") != "" {
		pawl.Register("memory", func(context.Context, string, *pawl.Options) (driver.Store, error) {
			return &cutStore{new(memlock.Store).Participant(), filepath.Join(dir, "cut")}, nil
		})
	}
}

type cutStore struct {
	driver.Store
	cut string
}

func (s *cutStore) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	if _, err := os.Stat(s.cut); err == nil {
		return driver.Renewal{}, errors.Join(driver.ErrUnavailable, errors.New("the network is cut"))
	}
	return s.Store.Renew(ctx, l, ttl)
}

// End fails as if the lease had ended while the file "cut" exists.
func (s *cutStore) End(ctx context.Context, l driver.Ref, how driver.End) (bool, error) {
	found, err := s.Store.End(ctx, l, how)
	if _, no := os.Stat(s.cut); no == nil {
		return false, errors.Join(err, &driver.LostError{Reason: driver.Gone})
	}
	return found, err
}

// Renewals move the deadline, for the guard too.
func TestRenewed(t *testing.T) {
	w := newWorld(t)
	began := time.Now()
	p := w.pawl("run", "-s", "memory://", "--ttl", "5s", "x", "sleep", "6")
	p.end(0)
	if d := time.Since(began); d < 6*time.Second || p.stderr() != "" {
		t.Errorf("took %v, stderr %q", d, p.stderr())
	}
}

// beating is a command that does not end and says when it was alive.
const beating = `trap 'date +%s.%N >term' TERM; touch in; while :; do date +%s.%N >beat; mv beat alive; done`

// A lease that cannot be renewed: TERM one grace before its end, and nothing is
// alive when it ends.
func TestCutOff(t *testing.T) {
	slow := drivertest.Late(t)
	w := newWorld(t)
	p := w.pawl("run", "-s", "memory://", "--ttl", "6s", "--grace", "2s", "--events", "ev", "x", "--", "sh", "-c", beating)
	w.appears("in")
	cut := time.Now()
	w.create("cut")
	p.end(exit.Lost, `pawl: lost: "x": lease lost: it was not renewed`, "network is cut")
	// The last renewal was before the cut, so the lease ended 6 s after it, or
	// earlier, and TERM comes 2 s before that.
	if d := w.instant("term").Sub(cut); d > 5*time.Second+slow() {
		t.Errorf("TERM came %v after the cut", d)
	}
	if d := w.instant("alive").Sub(cut); d > 6*time.Second+slow() {
		t.Errorf("alive %v after the cut", d)
	}
	for _, e := range []string{"suspect", "lost", "failed"} {
		if !strings.Contains(w.read("ev"), `"event":"`+e+`"`) {
			t.Errorf("no event %s in %s", e, w.read("ev"))
		}
	}
}

// As above, with a wrapper that can do nothing.
func TestStoppedWhileRenewing(t *testing.T) {
	slow := drivertest.Late(t)
	w := newWorld(t)
	p := w.pawl("run", "-s", "memory://", "--ttl", "6s", "--grace", "1500ms", "x", "--", "sh", "-c", beating)
	w.appears("in")
	stopped := time.Now()
	p.signal(syscall.SIGSTOP)
	w.until("the command is silent", func() bool {
		// And the lease is over, or the wrapper could renew it.
		return time.Since(w.instant("alive")) > 500*time.Millisecond && time.Since(stopped) > 6*time.Second
	})
	if d := w.instant("alive").Sub(stopped); d > 6*time.Second+slow() {
		t.Errorf("alive %v after the last renewal", d)
	}
	p.signal(syscall.SIGCONT)
	p.end(exit.Lost, "this process did not run for ")
}

// TestCutOffLongAfterAStop: a pause that the lease has survived is no reason for its loss.
func TestCutOffLongAfterAStop(t *testing.T) {
	w := newWorld(t)
	began := time.Now()
	p := w.pawl("run", "-s", "memory://", "--ttl", "10s", "--grace", "2s", "x", "--", "sh", "-c", beating)
	w.appears("in")
	p.signal(syscall.SIGSTOP)
	stopped := time.Now()
	w.until("it was stopped for a while", func() bool { return time.Since(stopped) > 2500*time.Millisecond })
	p.signal(syscall.SIGCONT)
	w.until("its lease was renewed, or would be over", func() bool { return time.Since(began) > 10*time.Second })
	w.create("cut")
	p.end(exit.Lost)
	if got := p.stderr(); !strings.Contains(got, "network is cut") || strings.Contains(got, "did not run") {
		t.Errorf("stderr %q", got)
	}
}

// TestStoppedAndBackInTime: the wrapper is stopped until the guard has ended the command,
// and goes on before the lease ends. That the command has ended was not its own doing.
func TestStoppedAndBackInTime(t *testing.T) {
	w := newWorld(t)
	p := w.pawl("run", "-s", "memory://", "--ttl", "6s", "--grace", "2s", "x", "--", "sh", "-c", "echo $$ >pid; touch in; exec sleep 1000")
	w.appears("in")
	p.signal(syscall.SIGSTOP)
	pid := strings.TrimSpace(w.read("pid"))
	w.until("the command is dead", func() bool { return w.isDead(pid) })
	p.signal(syscall.SIGCONT)
	p.end(exit.Lost, "this process did not run for ")
}

// instant reads what date(1) has written.
func (w *world) instant(name string) time.Time {
	sec, err := strconv.ParseFloat(strings.TrimSpace(w.read(name)), 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(int64(sec * 1e6))
}
