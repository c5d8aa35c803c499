// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/internal/participant"
)

// closed returns for how much longer the store grants nothing.
func closed(t testing.TB, d *client) time.Duration {
	t.Helper()
	var left time.Duration
	var err error
	if !eventually(patience, func() bool {
		var g *participant.Lease
		g, err = d.TryAcquire(t.Context(), request("is it closed", time.Second))
		var c *driver.ClosedError
		switch {
		case err == nil:
			left = 0
			return g.Release(t.Context()) == nil
		case errors.As(err, &c):
			if left = c.Left; !strings.Contains(err.Error(), "pglock.Bless") {
				t.Errorf("TryAcquire = %v; want an error that says what to do", err)
			}
			return true
		}
		return false
	}) {
		t.Fatalf("the store does not answer: %v", err)
	}
	return left
}

// renewed checks that a lease is there. The first requests may still find the old
// connections.
func renewed(t testing.TB, g interface {
	Renew(context.Context, time.Duration) (driver.Instant, error)
}) {
	t.Helper()
	var err error
	if !eventually(patience, func() bool {
		_, err = g.Renew(t.Context(), time.Minute)
		return err == nil || errors.Is(err, driver.ErrLost)
	}) || err != nil {
		t.Errorf("Renew = %v", err)
	}
}

// TestModeAfterACrash: what is on disk is there after a crash. If it may not be, nothing
// is granted for MaxTTL. An orderly restart forgets nothing.
func TestModeAfterACrash(t *testing.T) {
	t.Parallel()
	const maxTTL = 3 * time.Minute
	p := servers.StartPostgres(t)
	for _, c := range []struct {
		mode   Mode
		closed bool
	}{{Durable, false}, {Async, true}} {
		opts := &Options{Schema: "of " + string(c.mode), Mode: c.mode, MaxTTL: maxTTL}
		d := open(t, p.URL("pawl"), opts)
		g := take(t, d, "kept", time.Minute)
		if _, err := NewStore(t.Context(), p.URL("pawl"), &Options{Schema: opts.Schema, Mode: Synchronous, MaxTTL: maxTTL}); !errors.Is(err, driver.ErrDisagree) {
			t.Errorf("another mode: %v; want ErrDisagree", err)
		}
		if left := closed(t, d); left != 0 {
			t.Errorf("%s: a new store is closed for %v", c.mode, left)
		}
		if c.mode == Durable {
			defer func() {
				renewed(t, g)
			}()
		}
	}
	must(t, p.Restart())
	for mode, want := range map[Mode]bool{Durable: false, Async: true} {
		opts := &Options{Schema: "of " + string(mode), Mode: mode, MaxTTL: maxTTL}
		d := open(t, p.URL("pawl"), opts)
		left := closed(t, d)
		if got := left > maxTTL-time.Minute && left <= maxTTL; got != want {
			t.Errorf("%s: closed for %v after a crash", mode, left)
		}
		if mode == Async {
			info, err := d.Describe(t.Context())
			if err != nil || info.Closed == 0 || info.Why == "" {
				t.Errorf("Describe = %+v, %v", info, err)
			}
			if err := Bless(t.Context(), p.URL("pawl"), opts); err != nil {
				t.Error(err)
			}
			if left := closed(t, d); left != 0 {
				t.Errorf("closed for %v after Bless", left)
			}
		}
	}
}

// TestModeSynchronous: a server that should wait for a replica and does not grants nothing.
func TestModeSynchronous(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), &Options{Schema: "of nobody", Mode: Synchronous})
	if _, err := d.TryAcquire(t.Context(), request("x", time.Second)); !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, os.ErrInvalid) {
		t.Errorf("TryAcquire = %v; want ErrUnavailable", err)
	}
}

// TestShorterMaxTTL: a quarantine after MaxTTL was made shorter lasts until the last lease with
// the longer one must have ended.
func TestShorterMaxTTL(t *testing.T) {
	t.Parallel()
	const schema = "shorter"
	p := server(t)
	open(t, p.URL("pawl"), &Options{Schema: schema, MaxTTL: time.Hour, Mode: Async})
	must(t, SetMaxTTL(t.Context(), p.URL("pawl"), time.Minute, &Options{Schema: schema, Mode: Async}))
	sql(t, p, "DELETE FROM shorter.epoch") // as a crash does
	d := open(t, p.URL("pawl"), &Options{Schema: schema, Mode: Async})
	if left := closed(t, d); left < 50*time.Minute || left > time.Hour+time.Second {
		t.Errorf("closed for %v", left)
	}
}

// TestFsyncOff: after a crash of a server that has not waited for the disk at some time in that run,
// nothing is granted for MaxTTL, also if it waits by now; after the next crash it is as ever.
func TestFsyncOff(t *testing.T) {
	t.Parallel()
	for _, during := range []bool{false, true} {
		p := servers.StartPostgres(t)
		crash := func(args ...string) {
			t.Helper()
			p.Kill()
			p.Args = args
			must(t, p.Start())
		}
		if !during {
			crash("-c", "fsync=off")
		}
		d := open(t, p.URL("pawl"), &Options{MaxTTL: testMaxTTL})
		if during {
			// The row is there: the next grant is an ordinary one.
			release(t, take(t, d, "while it is off", time.Minute))
			for _, is := range []string{"off", "on"} {
				sql(t, p, "ALTER SYSTEM SET fsync = "+is)
				sql(t, p, "SELECT pg_reload_conf()")
				if !eventually(patience, func() bool { return sql(t, p, "SHOW fsync") == is }) {
					t.Fatal("fsync does not change")
				}
				take(t, d, "while it is "+is, time.Minute)
			}
		}
		for i, want := range []bool{true, false} {
			crash()
			if left := closed(t, d); isClosed(left) != want {
				t.Errorf("fsync was off, later: %v; crash %d: closed for %v", during, i+1, left)
			}
			must(t, Bless(t.Context(), p.URL("pawl"), nil))
		}
		if !during {
			continue
		}
		// As if an orderly restart without fsync had noted that, and a crash had lost the note.
		crash("-c", "fsync=off")
		if left := closed(t, d); !isClosed(left) {
			t.Errorf("after a crash with fsync off: closed for %v; want MaxTTL", left)
		}
	}
}
