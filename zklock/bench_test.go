// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl"
)

// BenchmarkFloor is what making a node, listing, and deleting it costs without us.
func BenchmarkFloor(b *testing.B) {
	d := openURL(b, startServer(b).url(), pawl.DefaultTTL)
	conn := firstSession(d).conn
	if err := firstSession(d).makeDir(b.Context(), "/pawl/deploy"); err != nil {
		b.Fatal(err)
	}
	b.Run("create+children+delete", func(b *testing.B) {
		for b.Loop() {
			p, err := conn.Create("/pawl/deploy/_c_x-lock-", nil, zk.FlagEphemeralSequential, d.wire.acl)
			if err == nil {
				_, _, err = conn.Children("/pawl/deploy")
			}
			if err == nil {
				err = conn.Delete(p, -1)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := conn.Exists("/"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkClient is an Acquire and a Release of a free lock.
func BenchmarkClient(b *testing.B) {
	s := startServer(b)
	locks, err := Open(b.Context(), s.url(), options(pawl.DefaultTTL))
	if err != nil {
		b.Fatal(err)
	}
	defer locks.Close()
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
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			name := strconv.FormatInt(n.Add(1), 10)
			for pb.Next() {
				pair(name)
			}
		})
	})
}

// BenchmarkHandOff is a lock that goes round among eight clients, each of which
// has one waiter or several.
func BenchmarkHandOff(b *testing.B) {
	for _, each := range []int{1, 8} {
		b.Run(strconv.Itoa(each), func(b *testing.B) {
			s := startServer(b)
			var clients [8]*pawl.Client
			for i := range clients {
				c, err := Open(b.Context(), s.url(), options(pawl.DefaultTTL))
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				clients[i] = c
			}
			before := s.count(b, "zk_packets_received")
			var n atomic.Int64
			b.SetParallelism(len(clients) * each / 2)
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
			b.ReportMetric(float64(s.count(b, "zk_packets_received")-before)/float64(b.N), "requests/op")
		})
	}
}

// BenchmarkRenew renews a thousand leases of one client.
func BenchmarkRenew(b *testing.B) {
	d := openURL(b, startServer(b).url(), pawl.DefaultTTL)
	for _, n := range []int{1, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var grants []*lease
			for i := range n {
				grants = append(grants, take(b, d, request("customer/"+strconv.Itoa(i), pawl.DefaultTTL)))
			}
			for b.Loop() {
				done := make(chan error, n)
				for _, g := range grants {
					go func() {
						_, err := g.Renew(b.Context(), pawl.DefaultTTL)
						done <- err
					}()
				}
				for range grants {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
			}
			for _, g := range grants {
				release(b, g)
			}
		})
	}
}
