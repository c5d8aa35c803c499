// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"
	"sync"
)

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
