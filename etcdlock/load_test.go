// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// metric returns a counter of the server.
func (m *member) metric(name string) float64 {
	m.t.Helper()
	resp, err := http.Get("http://" + m.Addr + "/metrics")
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	for line := range strings.Lines(string(all)) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				m.t.Fatal(err)
			}
			return n
		}
	}
	m.t.Fatalf("the server has no metric %s", name)
	return 0
}

// watches returns how many watches the server has.
func (m *member) watches() float64 { return m.metric("etcd_debugging_mvcc_watcher_total") }

// TestContention: clients that want one name all the time never overlap, get it in
// the order in which they came, which is that of their tokens, and are told once
// for each release: the waiter is.
func TestContention(t *testing.T) {
	t.Parallel()
	const clients, each = 8, 8
	length := 10 * time.Second
	if testing.Short() {
		length = 2 * time.Second
	}
	m := startServer(t)
	var all sync.WaitGroup
	var counts [clients]float64
	inside, last, leases := 0, pawl.Token(0), 0 // guarded by the lock under test
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	before := m.metric("etcd_debugging_mvcc_events_total")
	for i := range clients {
		c := openClient(t, m.url(), time.Minute)
		for range each {
			all.Go(func() {
				for ctx.Err() == nil {
					err := c.Do(ctx, "deploy", func(_ context.Context, l *pawl.Lease) error {
						if inside++; inside != 1 {
							t.Error("two holders at a time")
						}
						if l.Token() <= last {
							t.Errorf("token %d after %d: overtaken", l.Token(), last)
						}
						last = l.Token()
						leases++
						counts[i]++
						inside--
						return nil
					})
					if err != nil && ctx.Err() == nil {
						t.Errorf("Do = %v", err)
					}
				}
			})
		}
	}
	all.Wait()
	var squares float64
	for _, n := range counts {
		squares += n * n
	}
	n := float64(leases)
	events := (m.metric("etcd_debugging_mvcc_events_total") - before) / n
	t.Logf("%d leases, Jain index %.3f, %.2f events for each", leases, n*n/(clients*squares), events)
	if events > 1.2 {
		t.Errorf("%.2f events for each lease; want 1", events)
	}
	nothingLeft(t, openStore(t, m.url()))
}

// childEnv makes the test binary a holder that its parent kills: it is the URL of
// the store, a space, and the TTL. With a third word it keeps the name; see keeping.
const childEnv = "ETCDLOCK_TEST_CHILD"

func child() {
	words := strings.Fields(os.Getenv(childEnv))
	opts := new(Options)
	opts.TTL, _ = time.ParseDuration(words[1])
	c, err := Open(context.Background(), words[0], opts)
	if err == nil && len(words) > 2 {
		keeping(c)
	}
	if err == nil {
		_, err = c.Acquire(context.Background(), "deploy")
	}
	fmt.Println("held", err)
	select {}
}

// TestKilledHolder: the waiter has the lock when the TTL of a process that was
// killed is over. etcd looks every half a second which leases have ended.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	m := startServer(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+m.url()+" "+ttl.String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "held <nil>\n" {
		t.Fatalf("the child says %q", line)
	}
	s := openStore(t, m.url())
	w := wait(t, s, request("deploy"))
	time.Sleep(ttl) // it is renewed
	if !w.waits() {
		t.Fatal("the waiter got the lock while the holder lived")
	}
	killed := driver.Now()
	cmd.Process.Kill()
	release(t, w.granted(patience))
	after := w.at.Sub(killed)
	t.Logf("%v after the holder was killed, with a TTL of %v", after, ttl)
	if after > ttl+soon {
		t.Errorf("the waiter got the lock %v after the holder was killed; its TTL is %v", after, ttl)
	}
	nothingLeft(t, s)
}

// TestManyLeases renews many leases of one client for two TTLs. On a machine that is too slow for that it tries longer ones.
func TestManyLeases(t *testing.T) {
	n := 1000
	if testing.Short() || raceEnabled {
		n = 300
		t.Parallel() // 1,000 need the machine
	}
	m := startServer(t)
	var err error
	for ttl := 12 * time.Second; ttl < 2*patience; ttl *= 2 {
		if err = manyLeases(t, m, n, ttl); err == nil {
			return
		}
		t.Logf("with a TTL of %v: %v", ttl, err)
	}
	t.Fatalf("a lease was lost: %v", err)
}

func manyLeases(t *testing.T, m *member, n int, ttl time.Duration) error {
	c := openClient(t, m.url(), ttl)
	defer c.Close()
	leases := make([]*pawl.Lease, n)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for j := i; j < n; j += 64 {
				l, err := c.Acquire(t.Context(), strconv.Itoa(j))
				if err != nil {
					t.Errorf("Acquire = %v", err)
					return
				}
				leases[j] = l
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	time.Sleep(2 * ttl)
	for _, l := range leases {
		if err := l.Err(); err != nil {
			return err
		}
	}
	return nil
}
