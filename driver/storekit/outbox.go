// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"slices"
	"sync"
)

// Outbox calls a function with each piece of news, in order, and keeps news until there is a
// function. The zero Outbox is ready for use.
type Outbox[T any] struct {
	mu   sync.Mutex
	tell func(T)
	kept []T
}

// Put tells v, or keeps it.
func (o *Outbox[T]) Put(v T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tell == nil {
		o.kept = append(o.kept, v)
	} else {
		o.tell(v)
	}
}

// To makes Put call tell, which must not block, and calls it for what was kept. It is called at
// most once.
func (o *Outbox[T]) To(tell func(T)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, v := range o.kept {
		tell(v)
	}
	o.tell, o.kept = tell, nil
}

// Drop forgets what is kept and matches drop.
func (o *Outbox[T]) Drop(drop func(T) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = slices.DeleteFunc(o.kept, drop)
}
