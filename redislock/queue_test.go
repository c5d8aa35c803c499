// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"crypto/rand"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/internal/participant"
)

// patience is for what takes no time unless the machine is busy.
const patience = 45 * time.Second

// waiting is a call of Acquire in a goroutine of its own.
type waiting struct {
	t      testing.TB
	cancel context.CancelFunc
	done   chan struct{}
	grant  *participant.Lease
	err    error
	at     driver.Instant
}

// wait starts an Acquire and returns when it is in the queue.
func wait(t testing.TB, r *redis, s *party, req *driver.Request) *waiting {
	t.Helper()
	before := queueLen(r, req.Name)
	ctx, cancel := context.WithCancel(context.Background())
	w := &waiting{t: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.grant, w.err = s.Acquire(ctx, req)
		w.at = driver.Now()
	}()
	t.Cleanup(func() { cancel(); <-w.done })
	if !eventually(patience, func() bool { return queueLen(r, req.Name) > before }) {
		cancel()
		<-w.done
		t.Fatalf("Acquire does not join the queue: %v, %v", w.grant, w.err)
	}
	return w
}

// listens reports whether the server's messages reach a client.
func listens(s *party) bool {
	now, _ := s.server.Session("")
	return now.By != nil
}

func queueLen(r *redis, name string) int {
	n, _ := strconv.Atoi(r.do("zcard", lockKey(defaultPrefix, name)+queueSuffix))
	return n
}

// within receives from a channel. late is the error if nothing arrives.
func within[T any](t testing.TB, late string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(2 * patience):
		t.Fatal(late)
	}
	return v
}

// granted returns the grant, which must come within d.
func (w *waiting) granted(d time.Duration) *participant.Lease {
	w.t.Helper()
	select {
	case <-w.done:
	case <-time.After(d):
		w.t.Fatalf("Acquire still waits after %v", d)
	}
	if w.err != nil {
		w.t.Fatalf("Acquire = %v; want a grant", w.err)
	}
	return w.grant
}

func release(t testing.TB, g interface{ Release(context.Context) error }) {
	t.Helper()
	must(t, g.Release(context.Background()))
}

// releaseAnyhow releases although the connection may be lost at any time.
func releaseAnyhow(t testing.TB, g *participant.Lease) {
	t.Helper()
	await(t, "Release does not succeed", func() bool { return g.Release(context.Background()) == nil })
}

// renews renews a lease of a minute.
func renews(t testing.TB, g interface {
	Renew(context.Context, time.Duration) (driver.Instant, error)
}) {
	t.Helper()
	succeeds(t, "Renew", errorOf(g.Renew(context.Background(), time.Minute)))
}

// long is a request for a lease that does not end by itself during a test.
func long(name string) *driver.Request {
	return lasting(name, time.Minute)
}

func openLong(t testing.TB, r *redis) *party {
	return open(t, r.url(), longOptions())
}

func longOptions() *Options { return &Options{MaxTTL: time.Minute} }

func blessedServer(t testing.TB, args ...string) *redis {
	t.Helper()
	r := startServer(t, args...)
	bless(t, r.url(), longOptions())
	return r
}

// TestLostSubscription: whatever happens to the subscription, and when, a waiter gets
// the lock soon after it is free.
func TestLostSubscription(t *testing.T) {
	t.Parallel()
	slow := drivertest.Late(t)
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	kill := func() { r.do("client", "kill", "type", "pubsub", "skipme", "no") }
	var killing sync.WaitGroup
	for i := range 12 {
		name := fmt.Sprint("deploy", i)
		g := take(t, a, long(name))
		first, second := wait(t, r, b, long(name)), wait(t, r, b, long(name))
		switch i % 4 {
		case 0:
			kill()
			releaseAnyhow(t, g)
		case 1:
			releaseAnyhow(t, g)
			kill()
		case 2:
			kill()
			time.Sleep(time.Duration(i) * time.Millisecond)
			releaseAnyhow(t, g)
		case 3:
			killing.Go(kill)
			releaseAnyhow(t, g)
		}
		began := driver.Now()
		got := first
		select {
		case <-first.done:
		case <-second.done:
			got = second // the first could not be told in time
		case <-time.After(patience):
			t.Fatal("both waiters are stranded")
		}
		releaseAnyhow(t, got.granted(patience))
		releaseAnyhow(t, first.granted(patience))
		releaseAnyhow(t, second.granted(patience))
		if d := driver.Now().Sub(began); d > claimTTL+lookEvery+slow() {
			t.Errorf("the waiters needed %v", d)
		}
		killing.Wait()
		for _, s := range []*party{a, b} { // the next round begins with good connections
			eventually(patience, func() bool {
				_, err := s.Inspect(t.Context(), name)
				return err == nil && listens(s)
			})
		}
	}
}

// TestDeletedKeys: another program deletes the lock, or the queue. It delays
// the waiters to the next look of the first.
func TestDeletedKeys(t *testing.T) {
	t.Parallel()
	slow := drivertest.Late(t)
	for _, suffix := range []string{"", queueSuffix} {
		r := blessedServer(t)
		a, b := openLong(t, r), openLong(t, r)
		key := lockKey(defaultPrefix, "deploy")
		g := take(t, a, long("deploy"))
		w := wait(t, r, b, long("deploy"))
		r.do("del", key+suffix)
		if suffix != "" {
			release(t, g)
		}
		release(t, w.granted(lookEvery+patience))
		if d := w.grant.Since().Sub(w.at); d > lookEvery+slow() {
			t.Errorf("the waiter got the lock after %v", d)
		}
	}
}

// TestTokenFloor: tokens grow although the server's clock was set back.
func TestTokenFloor(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s := openLong(t, r)
	r.do("set", s.server.FloorKey(lockKey(defaultPrefix, "deploy")), "9000000000000000")
	for want := uint64(9000000000000001); want < 9000000000000004; want++ {
		g := take(t, s, long("deploy"))
		if g.Token() != want {
			t.Errorf("token %d; want %d", g.Token(), want)
		}
		release(t, g)
	}
}

// TestGrantToNobody: a lock that is handed to a waiter that has left goes to the next
// one at once.
func TestGrantToNobody(t *testing.T) {
	t.Parallel()
	slow := drivertest.Late(t)
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	eventually(patience, func() bool { return listens(b) })
	for _, kind := range []string{exclusive, shared, "3"} {
		g := take(t, a, long(kind))
		ghost := attemptText(rand.Text(), b.id, kind, "{}")
		r.do("zadd", lockKey(defaultPrefix, kind)+queueSuffix, "1", ghost)
		w := wait(t, r, a, long(kind))
		began := driver.Now()
		release(t, g)
		release(t, w.granted(patience))
		if d := w.at.Sub(began); d > claimTTL/2+slow() {
			t.Errorf("the lock came after %v to one behind a ghost that is %s; want it at once", d, kind)
		}
	}
}

var calls = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`)

func scriptCalls(r *redis) int {
	m := calls.FindStringSubmatch(r.do("info", "commandstats"))
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// TestReleaseWithoutMemory: a server that has no memory left for anything new takes
// locks back, and hands them on.
func TestReleaseWithoutMemory(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	a, b := openLong(t, r), openLong(t, r)
	g := take(t, a, long("deploy"))
	w := wait(t, r, b, long("deploy"))
	r.do("config", "set", "maxmemory", "1")
	time.Sleep(100 * time.Millisecond) // so that the scripts look at the role of the server again
	fails(t, "TryAcquire", errorOf(a.TryAcquire(t.Context(), long("deploy"))), driver.ErrHeld)
	release(t, g)
	release(t, w.granted(patience))
}
