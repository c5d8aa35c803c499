// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl"
)

// The servers keep their data in memory: on a disk each write costs an fsync more.

// BenchmarkFloor is what a key that is created and deleted costs without us.
func BenchmarkFloor(b *testing.B) {
	m := startServer(b)
	s := openStore(b, m.url())
	lease, err := s.client.Grant(b.Context(), 600)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_, err := s.client.Txn(b.Context()).If(clientv3.Compare(clientv3.CreateRevision("k"), "=", 0)).
			Then(clientv3.OpPut("k", "v", clientv3.WithLease(lease.ID))).Commit()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.client.Delete(b.Context(), "k"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkClient is an Acquire and a Release of a free lock.
func BenchmarkClient(b *testing.B) {
	m := startServer(b)
	locks := openClient(b, m.url(), 30*time.Second)
	pair := func(name string) {
		l, err := locks.Acquire(b.Context(), name)
		if err != nil {
			b.Error(err)
			return
		}
		if err := l.Release(b.Context()); err != nil {
			b.Error(err)
		}
	}
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			pair("deploy")
		}
	})
	b.Run("parallel", func(b *testing.B) {
		var n atomic.Int64
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			name := strconv.FormatInt(n.Add(1), 10)
			for pb.Next() {
				pair(name)
			}
		})
	})
}

// BenchmarkHandOff is a lock that goes round among clients, each of which has one
// waiter.
func BenchmarkHandOff(b *testing.B) {
	m := startServer(b)
	var clients [8]*pawl.Client
	for i := range clients {
		clients[i] = openClient(b, m.url(), 30*time.Second)
	}
	var n atomic.Int64
	b.SetParallelism(len(clients) / 2)
	b.RunParallel(func(pb *testing.PB) {
		c := clients[int(n.Add(1))%len(clients)]
		for pb.Next() {
			l, err := c.Acquire(b.Context(), "deploy")
			if err != nil {
				b.Error(err)
				return
			}
			if err := l.Release(b.Context()); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkRenew(b *testing.B) {
	m := startServer(b)
	s := openStore(b, m.url())
	g := take(b, s, request("deploy"))
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			if _, err := g.Renew(b.Context(), time.Minute); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.SetParallelism(64)
		b.RunParallel(func(pb *testing.PB) {
			g := take(b, s, request(rand.Text()))
			for pb.Next() {
				if _, err := g.Renew(b.Context(), time.Minute); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

// BenchmarkKeepIdle is one client again and again, two in bursts of 20, and two in strict
// turns: with KeepIdle, as a share of the time without. Both sides run in turn. "first" is
// the first acquire of another client while a name is kept, as a multiple of that of a free
// one.
func BenchmarkKeepIdle(b *testing.B) {
	m := startServer(b)
	for _, w := range []struct {
		name           string
		clients, burst int
	}{{"again", 1, 1}, {"bursts", 2, 20}, {"turns", 2, 1}, {"first", 2, 0}} {
		b.Run(w.name, func(b *testing.B) {
			var all []*pawl.Client
			for range w.clients {
				all = append(all, openClient(b, m.url(), time.Minute))
			}
			use := func(c *pawl.Client, name string, d time.Duration) {
				l, err := c.Acquire(b.Context(), name, pawl.KeepIdle(d))
				if err == nil {
					err = l.Release(b.Context())
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			var with, without time.Duration
			for round := 0; b.Loop(); round++ {
				for _, d := range []time.Duration{0, time.Hour} {
					name := fmt.Sprint(w.name, d > 0)
					if w.burst == 0 {
						name = fmt.Sprint(name, round)
						use(all[0], name, d)
						use(all[0], name, d)
						time.Sleep(10 * time.Millisecond) // until it watches
					}
					began := time.Now()
					if w.burst == 0 {
						use(all[1], name, 0)
					} else {
						for i := range 20 * w.burst {
							use(all[i/w.burst%len(all)], name, d)
						}
					}
					if d > 0 {
						with += time.Since(began)
					} else {
						without += time.Since(began)
					}
				}
			}
			b.ReportMetric(with.Seconds()/without.Seconds(), "share")
			if w.burst > 0 {
				b.ReportMetric(with.Seconds()*1e6/float64(b.N*20*w.burst), "µs/lease")
			}
		})
	}
}
