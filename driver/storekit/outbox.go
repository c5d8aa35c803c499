// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"slices"
	"sync"
)

// Outbox passes values to a function, in order. It keeps values until it has the function. The zero
// Outbox is ready for use.
type Outbox[T any] struct {
	mu   sync.Mutex
	tell func(T)
	kept []T
}

// Put passes v to the function, or keeps it.
func (o *Outbox[T]) Put(v T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tell == nil {
		o.kept = append(o.kept, v)
	} else {
		o.tell(v)
	}
}

// To makes Put call tell, which must not block, and passes the kept values to tell. Call To at most
// once.
func (o *Outbox[T]) To(tell func(T)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, v := range o.kept {
		tell(v)
	}
	o.tell, o.kept = tell, nil
}

// Drop forgets the kept values for which drop returns true.
func (o *Outbox[T]) Drop(drop func(T) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = slices.DeleteFunc(o.kept, drop)
}
