// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// arena is what all participants of a cell share, in as many processes as there
// are: when it begins and ends, and the evidence of whether only one of them was
// inside at a time. Instants are those of nano.
type arena struct {
	start, end atomic.Int64
	inside     atomic.Int64      // how many hold the lock
	token      atomic.Int64      // of the last one
	proc       atomic.Int64      // the process of the last one, plus one
	left       atomic.Int64      // when the last one began to let go
	crossed    atomic.Int64      // grants to another process than the one before
	broken     atomic.Int64      // grants while somebody was inside
	over       atomic.Bool       // nothing begins any more
	stale      atomic.Int64      // tokens that were not greater than the one before
	owners     [512]atomic.Int64 // the process of the last one of each of many locks, plus one
}

// meets is enter for one of many locks, by seat: it counts the crossings only.
func (a *arena) meets(proc, seat int) {
	if a.owners[seat].Swap(int64(proc)+1) != int64(proc)+1 {
		a.crossed.Add(1)
	}
}

// newArena makes an arena in a file, which openArena opens in other processes.
func newArena(file string) (*arena, error) {
	if err := os.WriteFile(file, make([]byte, unsafe.Sizeof(arena{})), 0o600); err != nil {
		return nil, err
	}
	return openArena(file)
}

func openArena(file string) (*arena, error) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, int(unsafe.Sizeof(arena{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*arena)(unsafe.Pointer(unsafe.SliceData(b))), nil
}

func (a *arena) close() {
	_ = unix.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(arena{})))
}

// enter is called by whoever has got the lock. It returns the process that had it
// before, plus one, and when that began to let go. When the cell is over, waits are
// cancelled, and libraries may end leases with them, so nothing is checked.
func (a *arena) enter(proc int, token uint64, over bool) (before, left int64) {
	if a.inside.Add(1) != 1 && !over {
		a.broken.Add(1)
	}
	if token != 0 {
		if int64(token) <= a.token.Load() && !over {
			a.stale.Add(1)
		}
		a.token.Store(int64(token))
	}
	before, left = a.proc.Load(), a.left.Load()
	if before != int64(proc)+1 {
		a.crossed.Add(1)
		a.proc.Store(int64(proc) + 1)
	}
	return before, left
}

// leave is called right before the lock is given back.
func (a *arena) leave() {
	a.left.Store(nano())
	a.inside.Add(-1)
}

// verdict says what went wrong, if anything did.
func (a *arena) verdict() error {
	if n := a.broken.Load(); n > 0 {
		return fmt.Errorf("two held the lock at the same time, %d times", n)
	}
	if n := a.stale.Load(); n > 0 {
		return fmt.Errorf("%d tokens did not grow", n)
	}
	return nil
}

// nano returns CLOCK_MONOTONIC, which all processes have in common. Go's own clock
// is the same one, and cheaper to read, but begins with the process.
func nano() int64 { return int64(time.Since(began)) + beganAt }

var began, beganAt = func() (t time.Time, at int64) {
	for best := int64(math.MaxInt64); best > 200; {
		var ts unix.Timespec
		before := time.Now()
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
		if d := int64(time.Since(before)); d < best {
			best, t, at = d, before, ts.Nano()-d/2
		} else {
			break // it does not get better
		}
	}
	return t, at
}()
