// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// BenchmarkHeld is what it costs to hold 10,000 leases with the TTL of 30 s, for 30 s: cores of
// the client and of the server, and memory of the client.
func BenchmarkHeld(b *testing.B) {
	const leases, length = 10_000, 30 * time.Second
	p := server(b)
	locks, err := Open(context.Background(), p.URL("pawl"), &Options{Schema: "held"})
	if err != nil {
		b.Fatal(err)
	}
	defer locks.Close()
	for b.Loop() {
		memory := used()
		held := make([]*pawl.Lease, leases)
		var all sync.WaitGroup
		for part := range 8 {
			all.Go(func() {
				for i := part; i < leases; i += 8 {
					if held[i], err = locks.TryAcquire(context.Background(), fmt.Sprint("held/", i)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		if b.Failed() {
			b.FailNow()
		}
		b.ReportMetric(float64(used()-memory)/leases, "B/lease")
		client, server := ownCPU(), cpuOf(p.Pid())
		time.Sleep(length)
		b.ReportMetric((ownCPU()-client).Seconds()/length.Seconds(), "client-cores")
		b.ReportMetric((cpuOf(p.Pid())-server).Seconds()/length.Seconds(), "server-cores")
		for _, l := range held {
			if err := l.Release(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func used() uint64 {
	runtime.GC()
	runtime.GC() // what has finalizers goes with the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

func ownCPU() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// cpuOf returns the time of a process, its children, and those that have ended.
func cpuOf(pid int) (sum time.Duration) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		f := strings.Fields(rest)
		counted := f[11:13] // its own
		switch {
		case filepath.Base(filepath.Dir(file)) == strconv.Itoa(pid):
			counted = f[11:15]
		case f[1] != strconv.Itoa(pid):
			continue
		}
		for _, ticks := range counted {
			n, _ := strconv.Atoi(ticks)
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}
