// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestServeUnwatched: while nobody looks, pawl serve sends each store at most a request a
// second, uses at most a fiftieth of a processor, and does not grow, also if what it reads
// changes all the time. SERVE_SOAK=1h is for how long.
func TestServeUnwatched(t *testing.T) {
	long, locks := 5*time.Second, 50
	if s := os.Getenv("SERVE_SOAK"); s != "" {
		var err error
		if long, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
		locks = 1000
	}
	w := newWorld(t)
	redis, etcd, pg := servers.StartRedis(t).Addr, servers.StartEtcd(t, 1)[0].Addr, servers.StartPostgres(t).Addr
	stores := []*watchedStore{
		{url: "redis://ADDR", addr: redis, locks: locks},
		{url: "etcd://ADDR", addr: etcd, locks: locks / 10},
		{url: "postgres://pawl:s3cret@ADDR/postgres?sslmode=disable", addr: pg, locks: locks / 10},
		{url: "file://" + w.dir + "/locks", locks: locks / 10},
	}
	words := []string{"serve", "--listen", "127.0.0.1:0"}
	ctx, cancel := context.WithCancel(t.Context())
	var churns sync.WaitGroup
	defer churns.Wait()
	defer cancel()
	w.blessed(stores[0].direct())
	for _, s := range stores {
		s.hold(t)
		churns.Go(func() { s.churn(ctx, t) })
		words = append(words, "-s", s.proxied(t))
	}
	p := w.pawl(words...)
	w.until("it listens", func() bool { return strings.HasSuffix(p.stdout(), "/\n") })
	w.until("it has asked every store", func() bool { return listed(p) == locks+3*locks/10 })

	// That a question was asked for may be known when it is answered: then there is one more.
	sent, since := int64(0), time.Now()
	w.until("it is quiet", func() bool {
		before := sent
		sent = 0
		for _, s := range stores {
			sent += s.requests.Load()
		}
		if sent != before {
			since = time.Now()
		}
		return time.Since(since) > 3*history.Every/2
	})
	begun, cpu := time.Now(), processorTime(t, p.Process.Pid)
	for _, s := range stores {
		s.requests.Store(0)
	}
	var early, late int // largest size in KiB, in the first and in the second half
	for d := time.Duration(0); d < long; d = time.Since(begun) {
		if p.ended() {
			t.Fatalf("pawl serve has ended: %s", p.stderr())
		}
		if size := residentKiB(t, p.Process.Pid); d < long/2 {
			early = max(early, size)
		} else {
			late = max(late, size)
		}
		time.Sleep(min(time.Second, long/10))
	}
	took := time.Since(begun)
	used := float64(processorTime(t, p.Process.Pid)-cpu) / float64(took)
	t.Logf("%v: %.2f %% of a processor, %d KiB at most in the first half and %d in the second", took.Round(time.Second), 100*used, early, late)
	brief := long < time.Minute // starting, and collecting garbage once, count too much
	if used > 0.02 && !brief {
		t.Errorf("%.1f %% of a processor; want 2 at most", 100*used)
	}
	if late > early+early/10 && !brief {
		t.Errorf("it grows: %d KiB at most in the first half, %d in the second", early, late)
	}
	for _, s := range stores {
		n := s.requests.Load()
		t.Logf("%s: %d locks, %d changes, %.2f requests a second", s.url, s.locks, s.changes.Load(), float64(n)/took.Seconds())
		limit := int64(took / time.Second)
		if brief {
			limit = 0
		}
		if n > limit {
			t.Errorf("%s: %d requests in %v; want %d at most", s.url, n, took, limit)
		}
	}
	p.signal(syscall.SIGTERM)
	p.end(0)
}

// watchedStore is a store whose locks change all the time.
type watchedStore struct {
	url, addr string // with ADDR instead of the address
	locks     int
	client    *pawl.Client
	leases    []*pawl.Lease
	changes   atomic.Int64
	requests  atomic.Int64 // that went through the address that proxied returns
}

func (s *watchedStore) direct() string { return strings.Replace(s.url, "ADDR", s.addr, 1) }

// hold acquires the locks.
func (s *watchedStore) hold(t *testing.T) {
	t.Helper()
	var err error
	if s.client, err = pawl.Open(t.Context(), s.direct(), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.client.Close() })
	s.leases = make([]*pawl.Lease, s.locks)
	for i := range s.leases {
		if s.leases[i], err = s.client.Acquire(t.Context(), fmt.Sprintf("job/%d", i), pawl.Why("to be watched")); err != nil {
			t.Fatalf("%s: %v", s.url, err)
		}
	}
}

// churn has ten locks change hands in a second.
func (s *watchedStore) churn(ctx context.Context, t *testing.T) {
	for tick := time.Tick(100 * time.Millisecond); ; {
		for i, l := range s.leases {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
			err := l.Release(ctx)
			if err == nil {
				s.leases[i], err = s.client.Acquire(ctx, l.Name(), pawl.Why("to be watched"))
			}
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("%s: %v", s.url, err)
				}
				return
			}
			s.changes.Add(1)
		}
	}
}

// proxied returns the URL by which the store is reached through a proxy, which counts what
// is sent to it at once as a request. Files have none.
func (s *watchedStore) proxied(t *testing.T) string {
	if s.addr == "" {
		return s.url
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", s.addr)
			if err != nil {
				from.Close()
				continue
			}
			go func() { _, _ = io.Copy(from, to); from.Close() }()
			go func() { _, _ = io.Copy(counted{to, &s.requests}, from); to.Close() }()
		}
	}()
	return strings.Replace(s.url, "ADDR", l.Addr().String(), 1)
}

// counted is a connection that counts what is written to it.
type counted struct {
	net.Conn
	n *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(b)
}

// listed returns of how many locks pawl serve tells.
func listed(p *proc) (n int) {
	answer, err := http.Get(strings.TrimSpace(strings.TrimPrefix(p.stdout(), "listening at ")) + "api/locks")
	if err != nil {
		return -1
	}
	defer answer.Body.Close()
	var got struct {
		Stores []struct{ Locks []struct{ Held bool } }
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		return -1
	}
	for _, s := range got.Stores {
		n += len(s.Locks)
	}
	return n
}

// processorTime returns what the process has used of processors, in ticks of 10 ms.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	user, err1 := strconv.Atoi(words[11])
	system, err2 := strconv.Atoi(words[12])
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// residentKiB returns how much memory the process has.
func residentKiB(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), "\nVmRSS:")
	word, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	n, err := strconv.Atoi(word)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
