// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestMutexOfConcurrency: locks of etcd's own package and ours stand in one queue. The
// second pattern has the key that its example has, with a slash at the end.
func TestMutexOfConcurrency(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	for pattern, key := range map[string]string{"/locks/*": "/locks/deploy", "/my-*/": "/my-deploy/"} {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, m.url()+"?pattern="+pattern)
			theirs := concurrency.NewMutex(otherSession(t, m), key)
			must(t, theirs.Lock(t.Context()))
			if _, err := s.TryAcquire(t.Context(), request("deploy")); !errors.Is(err, driver.ErrHeld) {
				t.Errorf("TryAcquire = %v; want ErrHeld", err)
			}
			info, err := s.Inspect(t.Context(), "deploy")
			if err != nil || len(info.Holders) != 1 || info.Holders[0].Who != "a client of another library" || info.Holders[0].Expires.IsZero() {
				t.Errorf("Inspect = %+v, %v; want another library's", info, err)
			}
			if all, err := s.List(t.Context(), "dep"); err != nil || len(all) != 1 || all[0].Name != "deploy" {
				t.Errorf("List = %v, %v", all, err)
			}

			// Ours behind theirs, theirs behind ours, and ours again.
			w := wait(t, s, request("deploy"))
			locked := make(chan error, 1)
			again := concurrency.NewMutex(otherSession(t, m), key)
			go func() { locked <- again.Lock(t.Context()) }()
			drivertest.Until(t, "the other does not come into the queue", func() bool { return len(keys(t, s, key)) == 3 })
			last := wait(t, s, request("deploy"))
			if !w.Waits() || !last.Waits() {
				t.Error("we got the lock while the other had it")
			}
			must(t, theirs.Unlock(t.Context()))
			g := w.granted(patience)
			third := concurrency.NewMutex(otherSession(t, m), key)
			if err := third.TryLock(t.Context()); !errors.Is(err, concurrency.ErrLocked) {
				t.Errorf("TryLock = %v while we had it; want ErrLocked", err)
			}
			select {
			case err := <-locked:
				t.Errorf("the other got the lock while we had it (%v)", err)
			default:
			}
			release(t, g)
			must(t, <-locked)
			if !last.Waits() {
				t.Error("we got the lock while the other had it")
			}
			must(t, again.Unlock(t.Context()))
			release(t, last.granted(patience))
		})
	}
}

func otherSession(t *testing.T, m *member) *concurrency.Session {
	t.Helper()
	s, err := concurrency.NewSession(openStore(t, m.url()).client, concurrency.WithTTL(60))
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// TestPatternIsForOneKind: what the other library cannot heed, or keys cannot say, is refused.
func TestPatternIsForOneKind(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	c := openClient(t, m.url()+"?pattern=/locks/*", time.Minute)
	for _, opt := range []pawl.Option{pawl.Shared(), pawl.Slots(2), pawl.KeepIdle(time.Second)} {
		if _, err := c.TryAcquire(t.Context(), "deploy", opt); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("TryAcquire(%v) = %v; want ErrUnsupported", opt, err)
		}
	}
	for _, name := range []string{"a/b", "100%"} {
		if _, err := c.TryAcquire(t.Context(), name); err == nil || !strings.Contains(err.Error(), "Pattern") {
			t.Errorf("TryAcquire(%q) = %v; want an error", name, err)
		}
	}
	for _, pattern := range []string{"/locks", "*", "/*/*", "/locks/*.lock", "p*", "pawl/*", "pawl/lock/*", "/\x00*"} {
		if _, err := newLayout(defaultPrefix, pattern); err == nil {
			t.Errorf("the pattern %q is taken", pattern)
		}
	}
}
