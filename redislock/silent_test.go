// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestSilentStore: a store goes away in different ways while several wait. The observer
// learns of it within some seconds, and after a TTL the waiters get ErrUnavailable,
// with the length of the silence and the reason.
func TestSilentStore(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	for how, away := range map[string]func(*redis, *drivertest.Link){
		"killed":  func(r *redis, _ *drivertest.Link) { r.kill() },
		"stopped": func(r *redis, _ *drivertest.Link) { r.stop() },
		"cut off": func(_ *redis, l *drivertest.Link) { l.Set(drivertest.BlackHole) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := blessedServer(t)
			link := drivertest.NewLink(t, r.Addr)
			told := make(chan pawl.Event, 10)
			var all []*pawl.Client
			for i := range 3 {
				opts := longOptions()
				opts.TTL = ttl
				if i == 0 {
					opts.Observer = pawl.Observer{Silent: func(e pawl.Event) { told <- e }}
				}
				c, err := Open(t.Context(), "redis://"+link.Addr(), opts)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				all = append(all, c)
			}
			if _, err := openLong(t, r).TryAcquire(t.Context(), long("deploy")); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, len(all))
			for i, c := range all {
				go func() {
					_, err := c.Acquire(t.Context(), "deploy")
					ended <- err
				}()
				if !eventually(patience, func() bool { return queueLen(r, "deploy") == i+1 }) {
					t.Fatal("nobody waits")
				}
			}
			began := time.Now()
			away(r, link)
			for range all {
				select {
				case err := <-ended:
					var silent *driver.SilentError
					if !errors.Is(err, pawl.ErrUnavailable) || !errors.As(err, &silent) || silent.For < ttl {
						t.Errorf("Acquire = %v; want that the store has not answered for %v", err, ttl)
					}
					if took := time.Since(began); took < ttl/2 || took > ttl+patience/2 {
						t.Errorf("after %v: %v", took, err)
					}
				case <-time.After(2 * patience):
					t.Fatal("a waiter still waits")
				}
			}
			select {
			case e := <-told:
				if e.Waited < time.Second || e.Waited > ttl+patience || e.Server == "" {
					t.Errorf("told that %q does not answer for %v", e.Server, e.Waited)
				}
			case <-time.After(patience):
				t.Error("that the store does not answer is not told")
			}
			r.cont()
		})
	}
}
