// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// TestClusterClocks: the nodes have different clocks. While a slot moves, one node
// answers for another one, whose clock has not been set for that.
func TestClusterClocks(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	ahead := c.masters[1]
	ahead.Program = clockProgram
	ahead.fakeClock()(20 * time.Second)
	ahead.restart()
	c.awaitOK()
	c.bless(longOptions())
	s := open(t, c.url(), longOptions())
	name := c.nameOn(0, "moved")
	g := take(t, s, long(name))
	other := take(t, s, lasting(c.nameOn(0, "other"), 21*time.Second))
	lost := make(chan error, 1)
	other.OnLost(func(err error) { lost <- err })
	renew := func() {
		t.Helper()
		renews(t, g)
	}
	time.Sleep(1500 * time.Millisecond) // with a step of 20 s the other lease would have ended
	renew()
	s.OnNews(func(n driver.News) {
		if n.Step != 0 {
			t.Errorf("a step of %v was told", n.Step)
		}
	})
	c.move(name, c.masters[0], ahead, renew)
	renew()
	select {
	case err := <-lost:
		t.Errorf("a lease at the node that gives the slot away has ended: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
}

// TestClusterClosed: a client that comes during the quarantine learns of it, although
// others have found it before, and again when the node has been restarted.
func TestClusterClosed(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	opts := longOptions()
	name := c.nameOn(0, "closed")
	first := open(t, c.url(), opts)
	if _, err := first.TryAcquire(t.Context(), long(name)); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("TryAcquire = %v; want ErrUnavailable", err)
	}
	await(t, "the epochs of the other slots have not begun", func() bool {
		n, _ := strconv.Atoi(c.masters[0].do("dbsize"))
		return n >= slotCount/3
	})
	told := make(chan pawl.Event, 10)
	opts.Observer = pawl.Observer{Closed: func(e pawl.Event) { told <- e }}
	locks := openClient(t, c.url(), opts)
	for _, what := range []string{"comes later", "sees a restart"} {
		for range 3 {
			if _, err := locks.TryAcquire(t.Context(), name); err == nil {
				t.Fatal("TryAcquire = nil while nothing is granted")
			}
		}
		if e := within(t, "who "+what+" is not told that nothing is granted", told); e.Left <= 0 || e.Server != c.masters[0].Addr {
			t.Errorf("told %+v", e)
		}
		if len(told) > 0 {
			t.Errorf("who %s is told more than once", what)
		}
		c.masters[0].restart()
		c.awaitOK()
		eventually(patience, func() bool { // until the node is answering again
			_, err := first.Inspect(t.Context(), name)
			return err == nil
		})
	}
}
