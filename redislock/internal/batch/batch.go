// SPDX-License-Identifier: Apache-2.0

// Package batch makes one call of many requests.
//
// Calling a script costs a server more than what the script does for one free lock. So
// requests that goroutines make at the same time become one call, if the script takes
// many. No request waits for others that may come: the first only yields once to
// goroutines that are ready to run. With few requests there are no batches and no
// delay.
//
// A cluster has the keys of such requests in different hash slots. Batches only save
// time: without this package each request is a call.
package batch

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/conn"
)

const (
	fewRequests = 4  // with fewer under way, each is sent by itself
	most        = 24 // requests in a batch; the server serves nothing else meanwhile
	maxOpen     = 8  // batches that are looked through
)

// Script is one that takes many requests at a time. Requests to the same Script, which is
// compared with ==, may be one call.
type Script interface {
	// PerRequest is how many trailing arguments belong to each request. All other arguments, and the
	// first key, are given once. The other keys and arguments are given by their kind: the second
	// key of all requests, the third of all.
	PerRequest() int
	// Call calls the script for n requests and returns the replies. If n is more than one, it may
	// return late when ctx ends.
	Call(ctx context.Context, n int, keys, args []string) ([]rueidis.RedisMessage, error)
}

// Requests gathers the requests of one participant to one server.
type Requests struct {
	active atomic.Int64 // under way
	yield  conn.Yield

	mu   sync.Mutex
	open []*batch // that others may join
}

// batch is requests that are sent as one call.
type batch struct {
	script Script
	keys   [][]string // by kind; the first of all is in common
	common []string   // arguments
	own    [][]string // by kind; the last arguments of each
	n      int        // requests

	done    chan struct{} // closed when the fields below are set
	replies []rueidis.RedisMessage
	err     error

	waiting int             // for the replies; Requests.mu guards it
	ctx     context.Context // of the call: it ends with the last request, not with the first
	cancel  context.CancelFunc
}

// Ask calls the script for one request, together with others perhaps, and returns the reply to it.
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

// askTogether sends the request in a batch. told is false if there was no batch, or if
// the server has refused the whole batch, perhaps because of another request in it.
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
		case most: // it was sent
		default:
			go b.send()
		}
	case most - 1:
		go b.send()
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		r.leave(b)
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

// join returns a batch and the number of the request in it. The request that fills the
// batch has to send it, or else the first. It returns nil if too many different batches
// are open.
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
		b.n++
		if b.waiting++; b.n == most {
			r.open = slices.Delete(r.open, at, at+1)
		}
		return b, b.n - 1
	}
	if len(r.open) == maxOpen {
		return nil, 0
	}
	b := &batch{script: script, common: slices.Clone(common), n: 1, done: make(chan struct{}), waiting: 1}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	for _, key := range keys {
		b.keys = append(b.keys, []string{key})
	}
	for _, arg := range mine {
		b.own = append(b.own, []string{arg})
	}
	r.open = append(r.open, b)
	return b, 0
}

// gather yields once so that goroutines that are ready to run can join, then closes the batch and
// returns how many requests it has. The yield may take long; a full batch has been sent by the
// request that filled it.
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

// leave ends the call if nobody else waits for it.
func (r *Requests) leave(b *batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.waiting--; b.waiting == 0 {
		b.cancel()
	}
}

func (b *batch) send() {
	defer b.cancel()
	b.replies, b.err = b.script.Call(b.ctx, b.n, slices.Concat(b.keys...), append(b.common, slices.Concat(b.own...)...))
	close(b.done)
}
