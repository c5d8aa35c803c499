// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// chaosTime is how long TestChaos lasts, unless $REDISLOCK_CHAOS says otherwise.
const chaosTime = 8 * time.Second

func chaosDuration() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("REDISLOCK_CHAOS")); err == nil {
		return d
	}
	return chaosTime
}

// TestChaos lets clients take turns while everything fails: links are cut,
// connections killed, the server is stopped, restarted empty and erased. Two
// leases are never trusted at a time, tokens grow, and when it is over the name
// comes free.
func TestChaos(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	opts := chaosOptions()
	ctx, cancel := context.WithTimeout(t.Context(), chaosDuration())
	defer cancel()
	w := &witness{}
	runChaos(ctx, t, r, opts, allHarm, &w.stop, w.takeTurns)
	t.Logf("%d leases", w.n)
	if w.n == 0 {
		t.Error("nobody ever had the lock")
	}
	for _, wrong := range w.wrong {
		t.Error(wrong)
	}
	c, err := Open(t.Context(), r.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := c.Acquire(ctx, "deploy"); err != nil {
		t.Errorf("when all is over, Acquire = %v", err)
	}
}

// seen is for how long at most the chaos without a guard goes on until it shows a fault. It
// mostly takes seconds; on a busy machine a minute has been too short.
const seen = 5 * time.Minute

// TestChaosIsSeen shows that TestChaos can fail: without the guard it sees two
// leases at a time.
func TestChaosIsSeen(t *testing.T) {
	t.Parallel()
	r := startServer(t, "--rename-command", "INFO", "")
	opts := chaosOptions()
	opts.AllowUnguarded = true
	ctx, cancel := context.WithTimeout(t.Context(), seen)
	defer cancel()
	w := &witness{}
	runChaos(ctx, t, r, opts, allHarm, &w.stop, w.takeTurns)
	if w.wrong == nil {
		t.Errorf("nothing wrong was seen in %d leases", w.n)
	}
}

func chaosOptions() *Options {
	opts := &Options{MaxTTL: 400 * time.Millisecond}
	opts.TTL = opts.MaxTTL
	return opts
}

// runChaos goes on until ctx ends or something wrong was seen, and stop called.
func runChaos(ctx context.Context, t *testing.T, r *redis, opts *Options, harm int, stop *func(), takeTurns func(context.Context, *pawl.Client)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	*stop = cancel
	var links []*drivertest.Link
	var work sync.WaitGroup
	for range 4 {
		link := drivertest.NewLink(t, r.Addr)
		links = append(links, link)
		var d driver.Store
		var err error
		if !eventually(patience, func() bool { d, err = NewStore(t.Context(), "redis://"+link.Addr(), opts); return err == nil }) {
			t.Fatal(err)
		}
		c, err := pawl.New(d, &opts.Options)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 2 {
			work.Go(func() { takeTurns(ctx, c) })
		}
	}
	work.Go(func() { chaos(ctx, r, links, harm) })
	work.Wait()
	for _, link := range links {
		link.Set(drivertest.Healthy)
	}
}

// How much harm is done.
const (
	mildHarm = 5 // the server forgets nothing
	allHarm  = 10
)

// chaos does harm until ctx ends, and leaves the server running.
func chaos(ctx context.Context, r *redis, links []*drivertest.Link, harm int) {
	pause := func(d time.Duration) {
		select {
		case <-time.After(rand.N(d)):
		case <-ctx.Done():
		}
	}
	cli := func(args ...string) { // whether it succeeds does not matter
		_, port, _ := net.SplitHostPort(r.Addr)
		_ = exec.CommandContext(ctx, "redis-cli", append([]string{"-p", port}, args...)...).Run()
	}
	for ctx.Err() == nil {
		link := links[rand.IntN(len(links))]
		switch rand.IntN(harm) {
		case 0, 1, 2:
			link.Set([]drivertest.Fault{drivertest.BlackHole, drivertest.RepliesLost}[rand.IntN(2)])
			pause(600 * time.Millisecond)
			link.Set(drivertest.Healthy)
		case 3:
			cli("client", "kill", "type", "pubsub")
		case 4:
			r.stop()
			pause(700 * time.Millisecond)
			r.cont()
		case 5:
			cli("flushall")
		case 6:
			r.restart()
		case 7:
			cli("script", "flush")
		case 8:
			cli("del", lockKey(defaultPrefix, "deploy")+queueSuffix)
		}
		pause(400 * time.Millisecond)
	}
}

// witness sees all leases.
type witness struct {
	stop  func()
	mu    sync.Mutex
	last  *pawl.Lease
	n     int
	wrong []string
}

func (w *witness) takeTurns(ctx context.Context, c *pawl.Client) {
	for ctx.Err() == nil {
		waiting, cancel := context.WithTimeout(ctx, rand.N(2*time.Second))
		l, err := c.Acquire(waiting, "deploy")
		cancel()
		if err != nil {
			time.Sleep(rand.N(10 * time.Millisecond))
			continue
		}
		w.saw(l)
		hold := rand.N(40 * time.Millisecond)
		if rand.IntN(3) == 0 { // long enough for something to happen meanwhile
			hold = rand.N(800 * time.Millisecond)
		}
		select {
		case <-l.Done():
		case <-time.After(hold):
		}
		_ = l.Release(ctx)
	}
}

// saw reports no error falsely: leases look at the clock when they are checked, and the
// new one, checked last, has been trusted since it was granted.
func (w *witness) saw(l *pawl.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.last
	if last == nil {
		w.last, w.n = l, 1
		return
	}
	trusted := last.Err() == nil
	if l.Err() != nil {
		return
	}
	w.last = l
	w.n++
	if trusted {
		w.wrong = append(w.wrong, fmt.Sprintf("two leases are trusted at a time: tokens %d and %d", last.Token(), l.Token()))
	}
	if l.Token() <= last.Token() {
		w.wrong = append(w.wrong, fmt.Sprintf("token %d after %d", l.Token(), last.Token()))
	}
	if w.wrong != nil {
		w.stop()
	}
}
