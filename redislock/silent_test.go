// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
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

// TestSilentForAWhile: a silence that is shorter than a TTL ends no waiting, and a refusal
// is no silence, however long.
func TestSilentForAWhile(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	link := drivertest.NewLink(t, r.Addr)
	s := openThrough(t, link, longOptions())
	defer s.Close()
	for what, c := range map[string]struct {
		ttl   time.Duration
		away  func()
		lasts time.Duration
		again func()
	}{
		"silent":  {20 * time.Second, func() { link.Set(drivertest.BlackHole) }, 2 * time.Second, func() { link.Set(drivertest.Healthy) }},
		"refuses": {time.Second, func() { r.do("config", "set", "maxmemory", "1") }, 3 * time.Second, func() { r.do("config", "set", "maxmemory", "0") }},
	} {
		held := take(t, openLong(t, r), long("deploy"))
		req := long("deploy")
		req.TTL = c.ttl
		w := wait(t, r, s.party, req)
		c.away()
		select {
		case <-w.done:
			t.Errorf("%s: the waiting ends: %v", what, w.err)
		case <-time.After(c.lasts):
		}
		c.again()
		release(t, held)
		select {
		case <-w.done:
		case <-time.After(patience):
			t.Fatalf("%s: the waiter stands beside a free lock", what)
		}
		g, err := w.grant, w.err
		if errors.Is(err, driver.ErrUncertain) {
			// The connection of before ended with the waiter's last request under way:
			// whoever called asks again.
			g, err = s.Acquire(t.Context(), req)
		}
		if err != nil {
			t.Fatalf("Acquire = %v; want a grant", err)
		}
		release(t, g)
	}
}

// TestCandidateOfSilentStore: a candidate waits on when a store does not answer for longer than
// the TTL, and leads in the end.
func TestCandidateOfSilentStore(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	link := drivertest.NewLink(t, r.Addr)
	opts := longOptions()
	opts.TTL = time.Second
	silent := make(chan error, 100)
	opts.Observer = pawl.Observer{Waited: func(e pawl.Event) { silent <- e.Err }}
	c, err := Open(t.Context(), "redis://"+link.Addr(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	held := take(t, openLong(t, r), long("deploy"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	led := make(chan bool)
	go func() {
		ended <- c.Elect(ctx, "deploy", func(ctx context.Context, _ *pawl.Lease) error {
			close(led)
			cancel()
			return nil
		})
	}()
	if !eventually(patience, func() bool { return queueLen(r, "deploy") == 1 }) {
		t.Fatal("nobody waits")
	}
	link.Set(drivertest.BlackHole)
	for over := false; !over; {
		select {
		case err := <-silent:
			over = errors.Is(err, pawl.ErrUnavailable)
		case err := <-ended:
			t.Fatalf("Elect = %v while the store does not answer", err)
		case <-time.After(patience):
			t.Fatal("the silence is not noticed")
		}
	}
	link.Set(drivertest.Healthy)
	release(t, held)
	select {
	case <-led:
	case err := <-ended:
		t.Fatalf("Elect = %v", err)
	case <-time.After(2 * patience):
		t.Fatal("the candidate does not lead")
	}
	<-ended
}
