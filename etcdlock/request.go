// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// limits are contexts with the time that a request has, each for all that begin within
// spread. A timer for each request costs more than all else that is done for it here.
type limits struct {
	mu    sync.Mutex // guards the fields below
	ctx   context.Context
	stop  context.CancelFunc // ctx ends without it: by itself, or with the store
	until driver.Instant     // when the next one is due
}

const spread = requestTimeout / 10

func (l *limits) next(parent context.Context) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := driver.Now(); l.ctx == nil || now >= l.until {
		// Requests may still have the one before.
		l.ctx, l.stop = context.WithTimeout(parent, requestTimeout)
		l.until = now.Add(spread)
	}
	return l.ctx
}

// request bounds one request: without an end of its own it would wait for a dead
// cluster for ever. It has requestTimeout, or up to spread less. A member that knows of
// no leader must say so at once.
func (s *store) request(ctx context.Context) (context.Context, context.CancelFunc) {
	sent := driver.Now()
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= requestTimeout {
		// It ends soon by itself, also after Close.
		return bounded{ctx, context.Background()}, func() { s.ended(ctx, sent) }
	}
	rctx, cancel := context.WithCancel(bounded{s.limits.next(s.ctx), ctx})
	stop := context.AfterFunc(ctx, cancel)
	return rctx, func() { s.ended(rctx, sent); stop(); cancel() }
}

// ended is told that a request has ended. If it was for lack of time the connection may
// be dead.
func (s *store) ended(ctx context.Context, sent driver.Instant) {
	if ctx.Err() == context.DeadlineExceeded {
		s.links.late(sent)
	}
}

// bounded is a request's context: with the end of one and the values of another. What
// the caller sends along with requests of its own is not for the cluster.
type bounded struct {
	context.Context // which ends
	values          context.Context
}

var withLeader = clientv3.WithRequireLeader(context.Background())

// Value asks the context that ends before the other: by a value of its own package
// context finds it, and makes a child of it without a goroutine.
func (b bounded) Value(key any) any {
	if v := withLeader.Value(key); v != nil {
		return v
	}
	if v := b.Context.Value(key); v != nil {
		return v
	}
	return b.values.Value(key)
}
