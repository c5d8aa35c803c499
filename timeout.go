// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"sync"

	"github.com/pawl-go/pawl/driver"
)

// lentContext has the values of one context and the end of another.
type lentContext struct {
	context.Context // which ends
	values          context.Context
}

// lent returns a context with the values of one context and the end of another,
// which has no values of interest.
func lent(values, ends context.Context) context.Context {
	if values == context.Background() {
		return ends
	}
	return lentContext{ends, values}
}

// Value asks the context that ends first: by a value of its own package context finds
// it, and makes a child of it without a goroutine.
func (c lentContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// share is for how long requests get the same context.
const share = requestTimeout / 10

// timeouts are the contexts of requests that have no end of their own. One for each
// request would cost more than all else that a release does.
type timeouts struct {
	mu     sync.Mutex // guards the fields below
	ctx    context.Context
	cancel context.CancelFunc
	until  driver.Instant // when the next one is due
}

// next returns a context that ends requestTimeout from now, or up to share earlier.
func (t *timeouts) next() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := driver.Now(); t.ctx == nil || now >= t.until {
		// The one before ends by itself: requests may still have it.
		t.ctx, t.cancel = context.WithTimeout(context.Background(), requestTimeout)
		t.until = now.Add(share)
	}
	return t.ctx
}

// stop frees the timer when no request is under way any more.
func (t *timeouts) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx != nil {
		t.cancel()
		t.ctx = nil
	}
}
