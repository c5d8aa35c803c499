// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestAcquireAllAtOnce: ten names cost the server one request if nobody has any of
// them, and are acquired one after the other, and waited for, if somebody has.
func TestAcquireAllAtOnce(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	c, other := openClient(t, r), openLong(t, r)
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprint("deploy", i))
	}
	before := scriptCalls(r)
	all, err := c.AcquireAll(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	if n := scriptCalls(r) - before; n != 1 {
		t.Errorf("%d requests; want 1", n)
	}
	for _, name := range names {
		heldBy(t, other, long(name), 1)
	}
	if err := all.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
	g := take(t, other, long(names[3]))
	done := make(chan error, 1)
	go func() {
		all, err := c.AcquireAll(t.Context(), names)
		if err == nil {
			err = all.Release(t.Context())
		}
		done <- err
	}()
	if !eventually(patience, func() bool { return queueLen(r, names[3]) == 1 }) {
		t.Fatal("AcquireAll does not wait for the name that is held")
	}
	heldBy(t, other, long(names[0]), 1)
	release(t, take(t, other, long(names[9])))
	release(t, g)
	if err := <-done; err != nil {
		t.Errorf("AcquireAll = %v; want nil", err)
	}
	for _, name := range names {
		release(t, take(t, other, long(name)))
	}
}

// TestLostReplyOfASet: the answer to a request for several names is lost. Nothing
// of it is left, whether it is carried out at once or when all have given it up.
func TestLostReplyOfASet(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	link := drivertest.NewLink(t, r.Addr)
	a, b := openThrough(t, link, longOptions()), openLong(t, r)
	names := []string{"a", "b", "c"}
	reqs := func() (reqs []*driver.Request) {
		for _, name := range names {
			reqs = append(reqs, long(name))
		}
		return reqs
	}
	grants, err := a.TryAcquireAll(t.Context(), reqs()) // the connection is there
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range grants {
		release(t, g)
	}
	for _, how := range []string{"late", "unanswered"} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if how == "late" {
			r.stop()
		} else {
			link.Set(drivertest.RepliesLost)
		}
		grants, err := a.TryAcquireAll(ctx, reqs())
		cancel()
		if err == nil || errors.Is(err, driver.ErrHeld) || len(grants) != len(names) {
			t.Errorf("%s: TryAcquireAll = %v, %v; want an error, and what undoes it", how, grants, err)
		}
		r.cont()
		link.Set(drivertest.Healthy)
		for _, g := range grants {
			releaseAnyhow(t, g)
		}
		for _, name := range names {
			release(t, take(t, b, long(name)))
		}
	}
}

// TestAcquireAllGivesBack: the answer to AcquireAll is lost, and its caller gives up.
// The client gives back what the server has granted.
func TestAcquireAllGivesBack(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	link := drivertest.NewLink(t, r.Addr)
	c, err := pawl.New(openThrough(t, link, longOptions()), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	other, names := openLong(t, r), []string{"a", "b", "c"}
	all, err := c.AcquireAll(t.Context(), names) // the connection is there
	if err != nil {
		t.Fatal(err)
	}
	all.Release(t.Context())
	link.Set(drivertest.RepliesLost)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := c.AcquireAll(ctx, names); done <- err }()
	if !eventually(patience, func() bool { return r.do("exists", lockKey(defaultPrefix, "c")) == "1" }) {
		t.Fatal("the server does not grant the names")
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("AcquireAll = %v; want the context's error", err)
	}
	link.Set(drivertest.Healthy)
	for _, name := range names {
		if !eventually(patience, func() bool {
			g, err := other.TryAcquire(t.Context(), long(name))
			return err == nil && g.Release(t.Context()) == nil
		}) {
			t.Errorf("%q is held still", name)
		}
	}
}

// TestForgottenSet: a server that has forgotten its leases grants no set either.
func TestForgottenSet(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	bless(t, r)
	s := open(t, r.url(), testOptions())
	old := take(t, s, request("b"))
	r.do("flushall")
	for {
		grants, err := s.TryAcquireAll(t.Context(), []*driver.Request{request("a"), request("b")})
		early := old.Since().Add(testMaxTTL - driver.Drift(testMaxTTL)).Sub(driver.Now())
		if err == nil {
			if early > 0 {
				t.Errorf("the names were granted %v before the deadline of a forgotten lease", early)
			}
			for _, g := range grants {
				release(t, g)
			}
			return
		}
		if !errors.Is(err, driver.ErrUnavailable) || early < -patience {
			t.Fatalf("TryAcquireAll = %v; want ErrUnavailable, and a grant in the end", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestAcquireAllTriples: clients lock random triples of ten names, on one server and on a
// cluster, where most are in several hash slots. None waits for ever, none has what
// another has, and nothing is left behind.
func TestAcquireAllTriples(t *testing.T) {
	t.Parallel()
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		acquireTriples(t, blessedServer(t).url())
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := startCluster(t, 0)
		c.bless(longOptions())
		acquireTriples(t, c.url())
	})
}

func acquireTriples(t *testing.T, url string) {
	const clients, each, names = 20, 15, 10
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	var in [names]sync.Mutex
	for range clients {
		c, err := Open(ctx, url, longOptions())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all.Go(func() {
			for range each {
				three := rand.Perm(names)[:3]
				var want []string
				for _, i := range three {
					want = append(want, fmt.Sprint("deploy", i))
				}
				g, err := c.AcquireAll(ctx, want)
				if err != nil {
					t.Errorf("AcquireAll = %v", err)
					return
				}
				for _, i := range three {
					if !in[i].TryLock() {
						t.Errorf("%s is held twice", fmt.Sprint("deploy", i))
						return
					}
				}
				time.Sleep(rand.N(2 * time.Millisecond))
				for _, i := range three {
					in[i].Unlock()
				}
				if err := g.Release(ctx); err != nil {
					t.Errorf("Release = %v", err)
				}
			}
		})
	}
	all.Wait()
	c, err := Open(ctx, url, longOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	infos, err := c.List(ctx, "")
	if err != nil || len(infos) > 0 {
		t.Errorf("List = %+v, %v; want nothing", infos, err)
	}
}
