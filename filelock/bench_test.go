// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"context"
	"path/filepath"
	"testing"
)

// BenchmarkUncontended acquires and releases a free lock. Most of it is the
// disk: on a memory file system it takes a fraction.
func BenchmarkUncontended(b *testing.B) {
	for name, dir := range map[string]string{"disk": b.TempDir(), "memory": memoryDir(b)} {
		b.Run(name, func(b *testing.B) {
			s := open(b, dir)
			for b.Loop() {
				release(b, acquire(b, s, "bench"))
			}
		})
	}
}

// BenchmarkHandOff passes a lock to and fro between two processes that wait for
// each other.
func BenchmarkHandOff(b *testing.B) {
	for name, dir := range map[string]string{"disk": b.TempDir(), "memory": memoryDir(b)} {
		b.Run(name, func(b *testing.B) {
			s := open(b, dir)
			counter := filepath.Join(b.TempDir(), "counter")
			start(b, "count", dir, "bench", counter, "1000000000")
			ctx := context.Background()
			for b.Loop() {
				g, err := s.Acquire(ctx, request("bench"))
				if err != nil {
					b.Fatal(err)
				}
				for queueLen(s, "bench") == 0 {
				}
				release(b, g)
			}
		})
	}
}
