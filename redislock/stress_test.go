// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// TestManyLeases renews many leases of one client for two TTLs, beside programs
// that want all processors. It is not parallel to others, which it would disturb.
func TestManyLeases(t *testing.T) {
	n := 2000
	if raceEnabled {
		n = 1000
	}
	keepBusy(t, 2*runtime.NumCPU(), "5") // nice, or a machine that is busy anyway leaves us too little
	cpu, lost := holdLeases(t, n, 2*stressTTL+time.Second)
	t.Logf("%d leases with a TTL of %v take %.2f of a processor", n, stressTTL, cpu)
	if lost > 0 {
		t.Errorf("%d leases were lost", lost)
	}
}

// BenchmarkManyLeases is the same for a minute, with ten thousand.
func BenchmarkManyLeases(b *testing.B) {
	for _, busy := range []int{0, runtime.NumCPU()} {
		b.Run("beside"+strconv.Itoa(busy), func(b *testing.B) {
			keepBusy(b, busy, "0")
			for range b.N {
				cpu, lost := holdLeases(b, 10_000, time.Minute)
				b.ReportMetric(cpu, "processors")
				b.ReportMetric(float64(lost), "lost")
			}
		})
	}
}

const stressTTL = 3 * time.Second

// keepBusy starts processes that use all processor time that they get.
func keepBusy(t testing.TB, n int, niceness string) {
	for range n {
		cmd := exec.Command("nice", "-n", niceness, "/bin/sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	}
}

// holdLeases holds n leases for d and returns how many processors that took, and
// how many leases were lost.
func holdLeases(t testing.TB, n int, d time.Duration) (processors float64, lost int64) {
	t.Helper()
	r := blessedServer(t)
	var losses atomic.Int64
	opts := longOptions()
	opts.TTL = stressTTL
	opts.Observer.Lost = func(pawl.Event) { losses.Add(1) }
	c, err := Open(t.Context(), r.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	leases := make([]*pawl.Lease, n)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for j := i; j < n; j += 64 {
				l, err := c.TryAcquire(t.Context(), strconv.Itoa(j))
				if err != nil {
					t.Errorf("TryAcquire = %v", err)
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
	cpu, began := cpuTime(), time.Now()
	time.Sleep(d)
	processors = float64(cpuTime()-cpu) / float64(time.Since(began))
	for _, l := range leases {
		if l.Err() != nil && losses.Load() == 0 { // not told yet
			losses.Add(1)
		}
	}
	return processors, losses.Load()
}

// cpuTime returns the processor time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
