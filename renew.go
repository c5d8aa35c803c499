// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"container/heap"
	"math"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// scheduler knows every held lease of a client and wakes each when it is due:
// to renew, to become suspect, or to end. It has one timer, and a goroutine only
// while something is due.
type scheduler struct {
	mu     sync.Mutex
	leases leaseHeap      // by due
	timer  *time.Timer    // runs tick
	armed  driver.Instant // when the timer fires; never if it is not set
}

const (
	never = driver.Instant(math.MaxInt64)

	// maxSleep bounds how late the scheduler is after the machine has been
	// suspended: timers stand still meanwhile, the clock of leases does not.
	maxSleep = time.Second
)

// add begins to watch l, whose due is set.
func (s *scheduler) add(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	heap.Push(&s.leases, l)
	s.arm()
}

// remove forgets l, and does nothing if it was forgotten before.
func (s *scheduler) remove(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.index >= 0 {
		heap.Remove(&s.leases, l.index)
		l.index = -1
	}
}

// replace has h, whose due is set, watched over instead of l, if that is.
func (s *scheduler) replace(l, h *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.index < 0 {
		return
	}
	h.index, l.index = l.index, -1
	s.leases[h.index] = h
	if h.due != l.due {
		heap.Fix(&s.leases, h.index)
		s.arm()
	}
}

// wakeAt sets when l is due next, unless it has been removed.
func (s *scheduler) wakeAt(l *Lease, due driver.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.index >= 0 {
		l.due = due
		heap.Fix(&s.leases, l.index)
		s.arm()
	}
}

// stop frees the timer. No lease is added any more.
func (s *scheduler) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
}

// arm sets the timer if it would fire too late. A timer that fires too early,
// because the lease it was set for is gone, costs one look.
func (s *scheduler) arm() {
	if len(s.leases) == 0 || s.leases[0].due == never {
		return
	}
	now := driver.Now()
	at := min(s.leases[0].due, now.Add(maxSleep))
	if s.timer == nil {
		s.timer = time.AfterFunc(at.Sub(now), s.tick)
	} else if at < s.armed {
		s.timer.Reset(at.Sub(now))
	} else {
		return
	}
	s.armed = at
}

func (s *scheduler) tick() {
	now := driver.Now()
	s.mu.Lock()
	var due []*Lease
	for len(s.leases) > 0 && s.leases[0].due <= now {
		l := s.leases[0]
		due = append(due, l)
		l.due = never // until wake says when
		heap.Fix(&s.leases, 0)
	}
	s.armed = never
	s.arm()
	s.mu.Unlock()
	for _, l := range due {
		l.wake(now)
	}
}

// leaseHeap implements heap.Interface.
type leaseHeap []*Lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *leaseHeap) Push(x any) {
	l := x.(*Lease)
	l.index = len(*h)
	*h = append(*h, l)
}

func (h *leaseHeap) Pop() any {
	old := *h
	n := len(old) - 1
	l := old[n]
	old[n] = nil
	*h = old[:n]
	return l
}
