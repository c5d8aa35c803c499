// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

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

func queueLen(r *redis, name string) int {
	n, _ := strconv.Atoi(r.do("zcard", lockKey(defaultPrefix, name)+queueSuffix))
	return n
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
	if err := g.Release(context.Background()); err != nil {
		t.Fatalf("Release = %v; want nil", err)
	}
}

// releaseAnyhow releases although the connection may be lost at any time.
func releaseAnyhow(t testing.TB, g *participant.Lease) {
	t.Helper()
	if !eventually(patience, func() bool { return g.Release(context.Background()) == nil }) {
		t.Fatal("Release does not succeed")
	}
}

// long is a request for a lease that does not end by itself during a test.
func long(name string) *driver.Request {
	req := request(name)
	req.TTL = time.Minute
	return req
}

func openLong(t testing.TB, r *redis) *party {
	return open(t, r.url(), longOptions())
}

func longOptions() *Options { return &Options{MaxTTL: time.Minute} }

func blessedServer(t testing.TB, args ...string) *redis {
	t.Helper()
	r := startServer(t, args...)
	if err := Bless(context.Background(), r.url(), patient(longOptions())); err != nil {
		t.Fatal(err)
	}
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
				open, _, _ := s.server.Subscription("").State()
				return err == nil && open
			})
		}
	}
}

// TestKilledWaiter: a waiter whose process has ended is passed over at once.
func TestKilledWaiter(t *testing.T) {
	t.Parallel()
	slow := drivertest.Late(t)
	r := blessedServer(t)
	a, c := openLong(t, r), openLong(t, r)
	g := take(t, a, long("deploy"))
	var links []*drivertest.Link
	for range 5 {
		link := drivertest.NewLink(t, r.Addr)
		links = append(links, link)
		wait(t, r, openThrough(t, link, longOptions()).party, long("deploy"))
	}
	next := wait(t, r, c, long("deploy"))
	for _, link := range links {
		link.Close()
	}
	if !eventually(patience, func() bool { return r.do("pubsub", "numsub") == "" && len(r.do("pubsub", "channels")) < 100 }) {
		t.Fatal("the server does not notice that the clients have gone")
	}
	began := driver.Now()
	release(t, g)
	release(t, next.granted(patience))
	if d := next.at.Sub(began); d > 500*time.Millisecond+slow() {
		t.Errorf("the next waiter got the lock after %v", d)
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

// TestForeignLock: libraries that lock the same key by SET NX PX exclude this one, and
// the other way round.
func TestForeignLock(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s := openLong(t, r)
	key := lockKey(defaultPrefix, "deploy")
	if out := r.do("set", key, "8f14e45f", "nx", "px", "3000"); out != "OK" {
		t.Fatal(out)
	}
	_, err := s.TryAcquire(t.Context(), long("deploy"))
	if want := "held by a client of another library"; err == nil || err.Error() != want {
		t.Errorf("TryAcquire = %v; want %s", err, want)
	}
	g := wait(t, r, s, long("deploy")).granted(patience)
	if out := r.do("set", key, "8f14e45f", "nx", "px", "300"); out != "" {
		t.Errorf("SET NX of a lock that is held = %q; want nothing", out)
	}
	release(t, g)
	if out := r.do("set", key, "8f14e45f", "nx"); out != "OK" {
		t.Errorf("SET NX of a lock that was released = %q", out)
	}
	if err := s.Break(t.Context(), "deploy", "8f14e45f", nil, ""); err != nil {
		t.Errorf("Break of another library's lock = %v", err)
	}
	take(t, s, long("deploy"))
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
	eventually(patience, func() bool { open, _, _ := b.server.Subscription("").State(); return open })
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

// handOffs counts the messages by which a server hands locks over from now on.
func handOffs(t testing.TB, r *redis) *atomic.Int64 {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.Addr}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	n, opened := new(atomic.Int64), make(chan struct{})
	ctx := rueidis.WithOnSubscriptionHook(t.Context(), func(rueidis.PubSubSubscription) { close(opened) })
	go client.Receive(ctx, client.B().Psubscribe().Pattern(defaultPrefix+"client:*").Build(), func(m rueidis.PubSubMessage) {
		if strings.HasPrefix(m.Message, "grant ") {
			n.Add(1)
		}
	})
	select {
	case <-opened:
	case <-time.After(patience):
		t.Fatal("the subscription to all clients does not open")
	}
	return n
}

// missedCosts is how many waiters are told to look when a claim was not taken: those at the head of the queue.
const missedCosts = 100

// looksOf returns how often each waiter looks at most while all are served.
func looksOf(took time.Duration) float64 { return 1.2 * took.Seconds() / lookEvery.Seconds() }

// TestManyWaiters: a thousand waiters cost the server two requests for each lease, to come
// into the queue and to let go, and some looks; and they come in order.
func TestManyWaiters(t *testing.T) {
	t.Parallel()
	const clients, each = 20, 50
	r := blessedServer(t)
	g := take(t, openLong(t, r), long("deploy"))
	var mu sync.Mutex
	var order []int
	var late atomic.Int64 // hand-offs whose claim was over before this machine had released them
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	stores := make([]*party, clients)
	for i := range stores {
		stores[i] = openLong(t, r)
	}
	for i := range clients * each {
		all.Go(func() {
			g, err := stores[i%clients].Acquire(ctx, renewed(long("deploy")))
			if err != nil {
				t.Errorf("Acquire = %v", err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			switch err := g.Release(ctx); {
			case errors.Is(err, driver.ErrLost):
				late.Add(1)
			case err != nil:
				t.Errorf("Release = %v", err)
			}
		})
		if i%100 == 99 && !eventually(patience, func() bool { return queueLen(r, "deploy") == i+1 }) {
			t.Fatal("the waiters do not come into the queue")
		}
	}
	handed := handOffs(t, r)
	before, began := scriptCalls(r), time.Now()
	release(t, g)
	all.Wait()
	const n = clients * each
	took, asked := time.Since(began), float64(scriptCalls(r)-before)/n
	missed := max(0, handed.Load()-n) + late.Load()
	t.Logf("%d hand-offs in %v, %.2f requests for each besides the first; %d claims were missed", n, took, asked, missed)
	looks := looksOf(took) + float64(missedCosts*missed)/n
	if asked > 2.5+looks { // a waiter that hears late asks once more
		t.Errorf("%.2f requests for each lease after its waiter has come; want 1 or 2, and %.2f for looks", asked, looks)
	}
	if missed > 0 {
		return // others have come first
	}
	out := 0
	for i, w := range order {
		if i > 0 && w/100 < order[i-1]/100 {
			out++
		}
	}
	if out > 0 {
		t.Errorf("%d waiters came before others who had come before them", out)
	}
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
	if _, err := a.TryAcquire(t.Context(), long("deploy")); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("TryAcquire = %v; want ErrHeld", err)
	}
	release(t, g)
	release(t, w.granted(patience))
}
