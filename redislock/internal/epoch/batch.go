// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// For one free lock, the call of a script costs the server more than the work of the
// script. So if goroutines make requests at the same time, the Server sends them as one
// call, a batch, if the script supports that. Before it sends a batch, it yields once to
// goroutines that are ready to run; it does not wait longer for further requests. With few
// requests there are no batches and no delay.
//
// In a cluster there are no batches, since the keys of the requests are in different hash
// slots.

const (
	fewRequests = 4  // with fewer requests under way, each is sent alone
	maxBatch    = 24 // requests in a batch; while the server works on one, it serves nothing else
	maxOpen     = 8  // open batches; join looks through all

	longest = time.Minute // for which a call waits for a server that does not answer
)

// batches gathers the requests of one participant to one server.
type batches struct {
	// send calls a script for n requests. If n is more than one, it may return some time after ctx has ended.
	send func(ctx context.Context, call scriptCall, n int, keys, args []string) ([]rueidis.RedisMessage, error)
	ctx  context.Context // calls for several requests end with it

	active atomic.Int64 // requests under way
	yield  conn.Yield

	mu   sync.Mutex
	open []*batch // that others may join
}

// scriptCall is a script of a Binding. Requests can be in one batch if their scriptCalls are equal.
type scriptCall struct {
	b      *Binding
	script int
	own    int // how many arguments each request has; see Script.PerRequest
}

// batch is a number of requests that are sent as one call.
type batch struct {
	scriptCall
	keys, args [][]string // of each request

	done    chan struct{} // closed when replies and err are set
	replies []rueidis.RedisMessage
	err     error
}

// ask calls a script for one request and returns the reply. It may combine the request with others into one call.
func (r *batches) ask(ctx context.Context, call scriptCall, keys, args []string) ([]rueidis.RedisMessage, error) {
	defer r.active.Add(-1)
	if r.active.Add(1) >= fewRequests {
		if reply, err, told := r.askTogether(ctx, call, keys, args); told {
			return reply, err
		}
	}
	replies, err := r.send(ctx, call, 1, keys, args)
	if err != nil {
		return nil, err
	}
	return replies[0].ToArray()
}

// askTogether sends the request in a batch. told is false if the caller has to send the
// request alone: there was no batch, or the server has refused the whole batch, perhaps
// because of another request.
func (r *batches) askTogether(ctx context.Context, call scriptCall, keys, args []string) (reply []rueidis.RedisMessage, err error, told bool) {
	b, i := r.join(call, keys, args)
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
			go r.sendBatch(b)
		}
	case maxBatch - 1:
		go r.sendBatch(b)
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
func (r *batches) join(call scriptCall, keys, args []string) (*batch, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.open, func(b *batch) bool {
		return b.scriptCall == call && b.keys[0][0] == keys[0] && slices.Equal(call.common(b.args[0]), call.common(args))
	})
	if at < 0 && len(r.open) == maxOpen {
		return nil, 0
	}
	if at < 0 {
		at = len(r.open)
		r.open = append(r.open, &batch{scriptCall: call, done: make(chan struct{})})
	}
	b := r.open[at]
	b.keys, b.args = append(b.keys, keys), append(b.args, args)
	if len(b.keys) == maxBatch {
		r.open = slices.Delete(r.open, at, at+1)
	}
	return b, len(b.keys) - 1
}

// common returns the arguments that all requests of a batch share.
func (c scriptCall) common(args []string) []string { return args[:len(args)-c.own] }

// gather yields once, so that goroutines that are ready to run can join the batch. Then it closes
// the batch and returns the number of requests. If the yield took long and the batch is not full,
// gather also stops yields for a while.
func (r *batches) gather(b *batch) int {
	long := r.yield.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := slices.Index(r.open, b); at >= 0 {
		r.open = slices.Delete(r.open, at, at+1)
		if long {
			r.yield.Rest()
		}
	}
	return len(b.keys)
}

// sendBatch goes on if a request has been given up, since others may still wait, but not for longer than longest, and not
// after Close.
func (r *batches) sendBatch(b *batch) {
	ctx, cancel := context.WithTimeout(r.ctx, longest)
	defer cancel()
	keys, args := b.keys[0][:1:1], slices.Clone(b.common(b.args[0]))
	keys = byKind(keys, b.keys, 1)
	args = byKind(args, b.args, len(args))
	b.replies, b.err = r.send(ctx, b.scriptCall, len(b.keys), keys, args)
	close(b.done)
}

// byKind appends to all, for each index from first on, the texts that the requests have there.
func byKind(all []string, requests [][]string, first int) []string {
	for kind := first; kind < len(requests[0]); kind++ {
		for _, of := range requests {
			all = append(all, of[kind])
		}
	}
	return all
}
