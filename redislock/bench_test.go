// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// BenchmarkEfficiency is what the mode of that name buys: an Acquire and a Release
// with Correctness, in turn with Efficiency, one after the other and 64 at a time.
// It tells how many times as long the former take.
func BenchmarkEfficiency(b *testing.B) {
	r := blessedServer(b)
	ours, err := Open(b.Context(), r.url(), longOptions())
	if err != nil {
		b.Fatal(err)
	}
	defer ours.Close()
	fast, err := Open(b.Context(), r.url(), &Options{Mode: Efficiency})
	if err != nil {
		b.Fatal(err)
	}
	defer fast.Close()
	for _, at := range []int{1, 64} {
		b.Run(strconv.Itoa(at), func(b *testing.B) {
			round := func(c *pawl.Client, name string) time.Duration {
				began := time.Now()
				var all sync.WaitGroup
				for i := range at {
					all.Go(func() {
						for range 20 {
							l, err := c.Acquire(b.Context(), name+strconv.Itoa(i))
							if err == nil {
								err = l.Release(b.Context())
							}
							if err != nil {
								b.Error(err)
							}
						}
					})
				}
				all.Wait()
				return time.Since(began)
			}
			var ratios []float64
			for b.Loop() {
				efficient := round(fast, "fast")
				ratios = append(ratios, float64(round(ours, "ours"))/float64(efficient))
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "times-as-long")
		})
	}
}

// BenchmarkHandOff is a lock that goes round among clients, each of which has one
// waiter or several.
func BenchmarkHandOff(b *testing.B) {
	for _, each := range []int{1, 8} {
		b.Run(strconv.Itoa(each), func(b *testing.B) {
			r := blessedServer(b)
			var clients [8]*pawl.Client
			for i := range clients {
				c, err := Open(b.Context(), r.url(), longOptions())
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				clients[i] = c
			}
			before := scriptCalls(r)
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
			b.ReportMetric(float64(scriptCalls(r)-before)/float64(b.N), "requests/op")
		})
	}
}

func BenchmarkRenew(b *testing.B) {
	r := blessedServer(b)
	s := openLong(b, r)
	g := take(b, s, long("deploy"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Renew(b.Context(), pawl.DefaultTTL); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReaders is a reader that comes and goes while others hold the lock.
func BenchmarkReaders(b *testing.B) {
	for _, n := range []int{0, 10, 100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			r := blessedServer(b)
			s := openLong(b, r)
			for range n {
				take(b, s, reading(long("deploy")))
			}
			for b.Loop() {
				release(b, take(b, s, reading(long("deploy"))))
			}
		})
	}
}

// BenchmarkKeepIdle is one client again and again, two clients in bursts of 20, and two
// clients in strict turns, each with KeepIdle and without. The operation is a lease.
func BenchmarkKeepIdle(b *testing.B) {
	r := blessedServer(b)
	for _, w := range []struct {
		name           string
		clients, burst int
	}{{"again", 1, 1}, {"bursts", 2, 20}, {"turns", 2, 1}} {
		for _, d := range []time.Duration{0, time.Hour} {
			b.Run(fmt.Sprintf("%s/%v", w.name, d > 0), func(b *testing.B) {
				var all []*pawl.Client
				for range w.clients {
					c, err := Open(b.Context(), r.url(), longOptions())
					if err != nil {
						b.Fatal(err)
					}
					defer c.Close()
					all = append(all, c)
				}
				b.ResetTimer()
				for i := range b.N {
					l, err := all[i/w.burst%len(all)].Acquire(b.Context(), w.name, pawl.KeepIdle(d))
					if err != nil {
						b.Fatal(err)
					}
					if err := l.Release(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
