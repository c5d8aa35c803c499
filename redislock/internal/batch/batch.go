// SPDX-License-Identifier: Apache-2.0

// Package batch combines many requests into one call.
//
// For one free lock, the call of a script costs the server more than the work of the
// script. So if goroutines make requests at the same time, this package sends them as one
// call, if the script supports that. Before it sends a batch, it yields once to goroutines
// that are ready to run; it does not wait longer for further requests. With few requests
// there are no batches and no delay.
//
// In a cluster there are no batches, since the keys of the requests are in different hash
// slots.
package batch

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/conn"
)

const (
	fewRequests = 4  // with fewer requests under way, each is sent alone
	maxBatch    = 24 // requests in a batch; while the server works on one, it serves nothing else
	maxOpen     = 8  // open batches; join looks through all

	longest = time.Minute // for which a call waits for a server that does not answer
)

// Script is a script that takes many requests at a time. Requests can be in one call if their
// Scripts are equal (==).
type Script interface {
	// PerRequest returns how many arguments each request has. They are the last arguments of a
	// request; the other arguments, and the first key, must be the same for all requests, and are sent
	// once. A call has the first key, then the second keys of all requests, then their third keys, and
	// so on. In the same way it has the common arguments, then the first own arguments of all requests, and
	// so on.
	PerRequest() int
	// Call calls the script for n requests and returns the replies. If n is more than one, it may
	// return some time after ctx has ended.
	Call(ctx context.Context, n int, keys, args []string) ([]rueidis.RedisMessage, error)
}

// Requests gathers the requests of one participant to one server.
type Requests struct {
	Context context.Context // calls for several requests end with it

	active atomic.Int64 // under way
	yield  conn.Yield

	mu   sync.Mutex
	open []*batch // that others may join
}

// batch is a number of requests that are sent as one call.
type batch struct {
	script Script
	keys   [][]string // keys[0] is the common first key; keys[1] are the second keys of all requests, and so on
	common []string   // arguments
	own    [][]string // own[0] are the first own arguments of all requests, and so on
	n      int        // requests

	done    chan struct{} // closed when replies and err are set
	replies []rueidis.RedisMessage
	err     error
}

// Ask calls the script for one request and returns the reply. It may combine the request with others into one call.
func (r *Requests) Ask(ctx context.Context, script Script, keys, args []string) ([]rueidis.RedisMessage, error) {
	defer r.active.Add(-1)
	if r.active.Add(1) >= fewRequests {
		if reply, err, told := r.askTogether(ctx, script, keys, args); told {
			return reply, err
		}
	}
	replies, err := script.Call(ctx, 1, keys, args)
	if err != nil {
		return nil, err
	}
	return replies[0].ToArray()
}

// askTogether sends the request in a batch. told is false if the caller has to send the
// request alone: there was no batch, or the server has refused the whole batch, perhaps
// because of another request.
func (r *Requests) askTogether(ctx context.Context, script Script, keys, args []string) (reply []rueidis.RedisMessage, err error, told bool) {
	b, i := r.join(script, keys, args)
	if b == nil {
		return nil, nil, false
	}
	switch i {
	case 0:
		switch r.gather(b) {
		case 1:
			return nil, nil, false
		case maxBatch: // the request that filled the batch has sent it
		default:
			go b.send(r.Context)
		}
	case maxBatch - 1:
		go b.send(r.Context)
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return nil, ctx.Err(), true
	}
	if b.err == nil {
		reply, err = b.replies[i].ToArray()
		return reply, err, true
	}
	if ret := conn.Refused(b.err); ret != nil && !ret.IsNoScript() && !conn.Partial(ret.Error()) {
		return nil, nil, false
	}
	return nil, b.err, true
}

// join adds a request to an open batch, or to a new one, and returns the batch and the index
// of the request. The request that fills the batch has to send it; if none does, the first
// request has to. join returns nil if there are maxOpen batches, and none fits.
func (r *Requests) join(script Script, keys, args []string) (*batch, int) {
	own := script.PerRequest()
	common, mine := args[:len(args)-own], args[len(args)-own:]
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, b := range r.open {
		if b.script != script || b.keys[0][0] != keys[0] || !slices.Equal(b.common, common) {
			continue
		}
		for kind, key := range keys[1:] {
			b.keys[kind+1] = append(b.keys[kind+1], key)
		}
		for kind, arg := range mine {
			b.own[kind] = append(b.own[kind], arg)
		}
		if b.n++; b.n == maxBatch {
			r.open = slices.Delete(r.open, at, at+1)
		}
		return b, b.n - 1
	}
	if len(r.open) == maxOpen {
		return nil, 0
	}
	b := &batch{script: script, common: slices.Clone(common), n: 1, done: make(chan struct{})}
	for _, key := range keys {
		b.keys = append(b.keys, []string{key})
	}
	for _, arg := range mine {
		b.own = append(b.own, []string{arg})
	}
	r.open = append(r.open, b)
	return b, 0
}

// gather yields once, so that goroutines that are ready to run can join the batch. Then it closes
// the batch and returns the number of requests. If the yield took long and the batch is not full,
// gather also stops yields for a while.
func (r *Requests) gather(b *batch) int {
	long := r.yield.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := slices.Index(r.open, b); at >= 0 {
		r.open = slices.Delete(r.open, at, at+1)
		if long {
			r.yield.Rest()
		}
	}
	return b.n
}

// send calls the script. It goes on if a request has been given up, since others may still wait, but not for longer than
// longest, and not after Close.
func (b *batch) send(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	b.replies, b.err = b.script.Call(ctx, b.n, slices.Concat(b.keys...), append(b.common, slices.Concat(b.own...)...))
	close(b.done)
}
