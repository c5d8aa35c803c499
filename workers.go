// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"slices"
	"sync"
)

// maxRenewals bounds the renewals of one client that are under way, so that a
// store that hangs does not collect a goroutine for each lease.
const maxRenewals = 1024

// renewals are the leases whose renewal is due, in the order in which they
// became due, and the goroutines that renew them. There is no goroutine while
// nothing is due.
type renewals struct {
	mu      sync.Mutex
	waiting []*Lease
	next    int // of waiting
	workers int
	closed  bool
	idle    sync.WaitGroup // workers
}

func (r *renewals) add(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if r.next > len(r.waiting)/2 {
		r.waiting, r.next = slices.Delete(r.waiting, 0, r.next), 0
	}
	r.waiting = append(r.waiting, l)
	if r.workers < maxRenewals {
		r.workers++
		r.idle.Go(r.work)
	}
}

// close forgets what is waiting and returns when the workers have ended.
func (r *renewals) close() {
	r.mu.Lock()
	r.closed, r.waiting, r.next = true, nil, 0
	r.mu.Unlock()
	r.idle.Wait()
}

func (r *renewals) work() {
	for l := r.take(); l != nil; l = r.take() {
		l.renew()
	}
}

// take returns the next lease, or nil, after which the worker must end.
func (r *renewals) take() *Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == len(r.waiting) {
		r.workers--
		r.waiting, r.next = r.waiting[:0], 0
		return nil
	}
	l := r.waiting[r.next]
	r.waiting[r.next] = nil
	r.next++
	return l
}
