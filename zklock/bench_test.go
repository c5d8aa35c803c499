// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/pawl-go/pawl"
)

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
