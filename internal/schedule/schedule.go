// SPDX-License-Identifier: Apache-2.0

// Package schedule wakes a hundred thousand items with one timer, and does their work
// with a bounded number of goroutines.
package schedule

import (
	"container/heap"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

const (
	// Never is when an item is due that is not to be woken.
	Never = driver.Instant(math.MaxInt64)

	// maxSleep bounds how late a schedule is after a suspend of the machine: timers
	// stop meanwhile, the clock of leases does not.
	maxSleep = time.Second
)

// Schedule wakes each of its items when it is due. It has one timer, and a
// goroutine only while something is due. Its lock is never held while it calls
// others.
type Schedule[T any] struct {
	wake func(T, driver.Instant)

	mu    sync.Mutex
	items items[T]       // a heap, the one that is due first on top
	timer *time.Timer    // runs tick
	armed driver.Instant // when the timer fires; Never if it is not set
}

// New returns a schedule that wakes an item by calling wake with its Of and the time. The
// item is not due again until WakeAt is called.
func New[T any](wake func(of T, now driver.Instant)) *Schedule[T] {
	return &Schedule[T]{wake: wake, armed: Never}
}

// Item is a place in a schedule. Set only Of.
type Item[T any] struct {
	Of T

	position int // in the heap, from 1; 0 if it is not there
	due      driver.Instant
}

// Add adds an item that is not in the schedule.
func (s *Schedule[T]) Add(i *Item[T], due driver.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.due = due
	heap.Push(&s.items, i)
	s.arm()
}

// Remove removes an item, if it is in the schedule.
func (s *Schedule[T]) Remove(i *Item[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i.position > 0 {
		heap.Remove(&s.items, i.position-1)
	}
}

// WakeAt sets when an item is due next, unless it has been removed.
func (s *Schedule[T]) WakeAt(i *Item[T], due driver.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i.position > 0 && i.due != due {
		i.due = due
		heap.Fix(&s.items, i.position-1)
		s.arm()
	}
}

// Stop frees the timer. No item may be added after it.
func (s *Schedule[T]) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
}

// Hold, for tests, blocks the schedule until release is called.
func (s *Schedule[T]) Hold() (release func()) {
	s.mu.Lock()
	return s.mu.Unlock
}

// arm sets the timer if it would fire too late. It does not move one that fires too early,
// because its item was removed: that costs one look.
func (s *Schedule[T]) arm() {
	if len(s.items) == 0 || s.items[0].due == Never {
		return
	}
	now := driver.Now()
	at := min(s.items[0].due, now.Add(maxSleep))
	if s.timer == nil {
		s.timer = time.AfterFunc(at.Sub(now), s.tick)
	} else if at < s.armed {
		s.timer.Reset(at.Sub(now))
	} else {
		return
	}
	s.armed = at
}

func (s *Schedule[T]) tick() {
	now := driver.Now()
	for _, i := range s.due(now) {
		s.wake(i.Of, now)
	}
}

// due returns the items that are due, and sets the timer for the next one.
func (s *Schedule[T]) due(now driver.Instant) (due []*Item[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.items) > 0 && s.items[0].due <= now {
		i := s.items[0]
		due = append(due, i)
		i.due = Never // until WakeAt
		heap.Fix(&s.items, 0)
	}
	s.armed = Never
	s.arm()
	return due
}

// items implements heap.Interface.
type items[T any] []*Item[T]

func (h items[T]) Len() int           { return len(h) }
func (h items[T]) Less(i, j int) bool { return h[i].due < h[j].due }
func (h items[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].position, h[j].position = i+1, j+1
}

func (h *items[T]) Push(x any) {
	i := x.(*Item[T])
	*h = append(*h, i)
	i.position = len(*h)
}

func (h *items[T]) Pop() any {
	old := *h
	n := len(old) - 1
	i := old[n]
	old[n], i.position = nil, 0
	*h = old[:n]
	return i
}

// Workers call a function for each item that they are given, in order, with a bounded
// number of goroutines, and none while there is no item. So calls that hang do not gather
// a goroutine for each item.
type Workers[T any] struct {
	do   func(T)
	most int

	mu      sync.Mutex
	waiting []T
	next    int // of waiting
	working int
	closed  bool
	idle    sync.WaitGroup // goroutines
}

// NewWorkers returns workers that call do, with up to most goroutines.
func NewWorkers[T any](most int, do func(T)) *Workers[T] {
	return &Workers[T]{do: do, most: most}
}

// Add makes a worker call do with item soon. It does not wait. After Close it does nothing.
func (w *Workers[T]) Add(item T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if w.next > len(w.waiting)/2 {
		w.waiting, w.next = slices.Delete(w.waiting, 0, w.next), 0
	}
	w.waiting = append(w.waiting, item)
	if w.working < w.most {
		w.working++
		w.idle.Go(w.work)
	}
}

// Close forgets the items that wait, and returns when the calls under way have ended.
func (w *Workers[T]) Close() {
	w.mu.Lock()
	w.closed, w.waiting, w.next = true, nil, 0
	w.mu.Unlock()
	w.idle.Wait()
}

func (w *Workers[T]) work() {
	for item, ok := w.take(); ok; item, ok = w.take() {
		w.do(item)
	}
}

// take returns the next item, or false: then the goroutine must end.
func (w *Workers[T]) take() (item T, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next == len(w.waiting) {
		w.working--
		w.waiting, w.next = w.waiting[:0], 0
		return item, false
	}
	var none T
	item, w.waiting[w.next] = w.waiting[w.next], none
	w.next++
	return item, true
}
