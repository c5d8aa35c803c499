// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"context"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// queueUp starts processes that wait for a name, and returns when they are in the queue.
func queueUp(t *testing.T, s *server, b *client, n int) (all []*exec.Cmd, said []<-chan string) {
	t.Helper()
	for range n {
		before := len(childrenOf(t, b, "deploy"))
		cmd, says := startHolder(t, s.url())
		if !eventually(patience, func() bool { return len(childrenOf(t, b, "deploy")) > before }) {
			t.Fatal("a process does not come into the queue")
		}
		all, said = append(all, cmd), append(said, says)
	}
	return all, said
}

// TestPausedWaiters: processes that wait before a live one are stopped. However many they are, the
// name is free for as long as one session lasts, as their sessions end together. When they go on, none
// of them believes that it is next.
func TestPausedWaiters(t *testing.T) {
	t.Parallel()
	const paused = 6
	s := startServer(t)
	b := openURL(t, s.url(), time.Minute)
	// Clients renew: a slow machine may need minutes for this.
	a, c := clientOf(t, openURL(t, s.url(), time.Minute).wire, time.Minute), clientOf(t, openURL(t, s.url(), time.Minute).wire, time.Minute)
	first, err := a.Acquire(t.Context(), "deploy")
	if err != nil {
		t.Fatal(err)
	}
	waiters, said := queueUp(t, s, b, paused)
	signal := func(sig syscall.Signal) {
		for _, p := range waiters {
			if err := p.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	inQueue := func(n int) bool {
		return eventually(2*patience, func() bool { return len(childrenOf(t, b, "deploy")) == n })
	}
	type grant struct {
		lease *pawl.Lease
		err   error
		at    driver.Instant
	}
	granted := make(chan grant, 1)
	go func() {
		l, err := c.Acquire(context.WithoutCancel(t.Context()), "deploy")
		granted <- grant{l, err, driver.Now()}
	}()
	if !inQueue(paused + 2) {
		t.Fatal("the waiter does not come into the queue")
	}
	signal(syscall.SIGSTOP)
	release(t, first)
	free := driver.Now()
	next := <-granted
	if next.err != nil {
		t.Fatal(next.err)
	}
	took := next.at.Sub(free)
	t.Logf("the name was free for %v behind %d paused waiters; sessions last %v", took, paused, b.wire.timeoutFor(purpose{ttl: killedTTL}))
	if most := killedTTL * paused / 2; took > most {
		t.Errorf("the name was free for %v; want %v at most: each of the paused waiters has kept it", took, most)
	}
	signal(syscall.SIGCONT)
	if !inQueue(paused + 1) {
		t.Errorf("the waiters do not come back: the queue is %v; the holder has token %d, %v", childrenOf(t, b, "deploy"), next.lease.Token(), next.lease.Err())
	}
	for _, c := range said {
		select {
		case line := <-c:
			if next.lease.Err() == nil {
				t.Errorf("beside the holder, a waiter that was paused says %q", line)
			}
		default:
		}
	}
	release(t, next.lease)
	if !eventually(patience, func() bool { return slices.ContainsFunc(said, func(c <-chan string) bool { return len(c) > 0 }) }) {
		t.Error("none of the waiters that were paused gets the name")
	}
}

// TestPausedHeadGoesOn: a waiter that was paused when it was to get the name goes on before its session
// ends. It or the next one has the name, and not both.
func TestPausedHeadGoesOn(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := openURL(t, s.url(), time.Minute)
	g := take(t, b, request("deploy", time.Minute))
	waiters, said := queueUp(t, s, b, 1)
	w := wait(t, b, request("deploy", time.Minute))
	waiters[0].Process.Signal(syscall.SIGSTOP)
	release(t, g)
	time.Sleep(killedTTL / 4)
	waiters[0].Process.Signal(syscall.SIGCONT)
	select {
	case <-said[0]:
		select {
		case <-w.done:
			t.Errorf("the next waiter has the name beside the one that was paused (%v)", w.err)
		case <-time.After(killedTTL / 2):
		}
		waiters[0].Process.Kill()
		release(t, w.granted(t))
	case <-w.done: // its session had ended, on a slow machine
		time.Sleep(killedTTL / 2)
		if len(said[0]) > 0 {
			t.Error("the waiter that was paused has the name beside the next one")
		}
		release(t, w.granted(t))
	case <-time.After(patience):
		t.Error("nobody gets the name")
	}
}
