// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestClockStep: what a step of the server's clock does to all keys is done to
// one by hand. The step is told once, and the lease that it must have ended is
// lost at once.
func TestClockStep(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	var log output
	opts := longOptions()
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := open(t, r.url(), opts)
	short := long("short")
	short.TTL = 3 * time.Second
	doomed, first, second := take(t, s, short), take(t, s, long("first")), take(t, s, long("second"))
	lost := make(chan error, 1)
	doomed.(driver.Notifier).OnLost(func(err error) { lost <- err })
	renew := func(g driver.Grant) {
		t.Helper()
		if _, err := g.Renew(t.Context(), time.Minute); err != nil {
			t.Errorf("Renew = %v; want nil", err)
		}
	}
	renew(first)
	if log.String() != "" {
		t.Errorf("without a step the log says: %s", log.String())
	}
	for _, name := range []string{"first", "second"} {
		r.do("pexpire", lockKey(defaultPrefix, name), "50000")
	}
	renew(first)
	renew(second)
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "clock") {
		t.Errorf("the log says:\n%swant one line about the clock", text)
	}
	select {
	case err := <-lost:
		if !errors.Is(err, driver.ErrLost) || !strings.Contains(err.Error(), "clock") {
			t.Errorf("the holder learnt %v; want that the clock was set", err)
		}
	case <-time.After(patience):
		t.Error("the holder of the lease that must have ended is not told")
	}
	if _, err := doomed.Renew(t.Context(), short.TTL); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Renew = %v; want ErrLost", err)
	}
}
