// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// The servers keep their data in memory: on a disk each write costs an fsync more.

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
