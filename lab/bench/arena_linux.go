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

// arena is memory that all participants of a cell share, in all processes. It says when
// the cell begins and ends, and keeps evidence of whether only one participant held the
// lock at a time. Instants are those of nano.
type arena struct {
	start, end atomic.Int64
	inside     atomic.Int64 // how many participants hold the lock
	token      atomic.Int64 // token of the last holder
	proc       atomic.Int64 // process of the last holder, plus one
	left       atomic.Int64 // when the last holder began to release
	crossed    atomic.Int64 // grants to another process than the grant before
	broken     atomic.Int64 // grants while another participant held the lock
	stale      atomic.Int64 // tokens that were not greater than the token before
}

// newArena makes an arena in a file. Other processes open the file with openArena.
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

// enter notes that a participant in process proc has got the lock. It returns the process of
// the holder before, plus one, and when that holder began to release. If over is set, enter
// checks nothing: at the end of a cell waits are cancelled, and some libraries then end
// leases too.
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

// leave notes that the holder is about to release the lock.
func (a *arena) leave() {
	a.left.Store(nano())
	a.inside.Add(-1)
}

// verdict returns an error if two participants held the lock at a time, or a token did not grow.
func (a *arena) verdict() error {
	if n := a.broken.Load(); n > 0 {
		return fmt.Errorf("two held the lock at the same time, %d times", n)
	}
	if n := a.stale.Load(); n > 0 {
		return fmt.Errorf("%d tokens did not grow", n)
	}
	return nil
}

// nano returns the time of CLOCK_MONOTONIC, which is the same in all processes. It reads Go's
// clock, which is cheaper to read and runs in step, but starts with the process.
func nano() int64 { return int64(time.Since(began)) + beganAt }

var began, beganAt = func() (t time.Time, at int64) {
	for best := int64(math.MaxInt64); best > 200; {
		var ts unix.Timespec
		before := time.Now()
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
		if d := int64(time.Since(before)); d < best {
			best, t, at = d, before, ts.Nano()-d/2
		} else {
			break // a further reading is not more exact
		}
	}
	return t, at
}()
