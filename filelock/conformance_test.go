// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Harness{
		Start: func(t testing.TB) drivertest.Store {
			dir := t.TempDir()
			return drivertest.Store{
				Open: func(t testing.TB) driver.Driver {
					return &crasher{client: open(t, dir)}
				},
				Crash: func(_ testing.TB, d driver.Driver) { d.(*crasher).crash() },
				Left:  func(t testing.TB, prefix string) []string { return left(t, dir, prefix) },
			}
		},
		TTL:       300 * time.Millisecond,
		Slack:     1500 * time.Millisecond,
		Pause:     20 * time.Millisecond,
		Histories: 8,
		Parallel:  true,
	})
}

// left lists what is in the directories of those who hold names that begin with
// prefix, or wait for them.
func left(t testing.TB, dir, prefix string) (files []string) {
	t.Helper()
	for _, suffix := range []string{queueSuffix, heldSuffix} {
		some, err := filepath.Glob(filepath.Join(dir, encode(prefix)+"*"+suffix, "*"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, some...)
	}
	return files
}

// crasher is a participant whose files can be closed as the end of its process
// closes them: nothing is unlocked, noted or removed before. Its waiters leave in
// good order; TestKilledWaiters kills some for good.
type crasher struct {
	client
	dead atomic.Bool
}

func (c *crasher) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	return c.keep(c.client.TryAcquire(ctx, req))
}

func (c *crasher) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	return c.keep(c.client.Acquire(ctx, req))
}

func (c *crasher) keep(g driver.Grant, err error) (driver.Grant, error) {
	if g != nil && c.dead.Load() { // it was granted when the process had ended
		c.store.crash()
	}
	return g, err
}

func (c *crasher) crash() {
	c.Close()
	c.dead.Store(true)
	c.store.crash()
}

// crash closes all files that s has open for leases. A process that another test is just starting has
// copies of them until its program runs.
func (s *store) crash() {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	leases.Range(func(_, l any) bool {
		switch l := l.(type) {
		case *hold:
			if l.store == s {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.lock.Close()
				l.fifo.Close()
				if m := l.member; m != nil && m.slot != nil {
					m.slot.Close()
				}
			}
		case *place:
			if l.store == s {
				unix.Close(l.fd)
				l.fd = -1
			}
		}
		return true
	})
}
