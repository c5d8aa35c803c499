// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

const (
	// A transaction asks about so many leases, with two operations each; servers
	// allow 128 unless told otherwise.
	maxBatch = 32
	// maxReads is how many such transactions are under way, and maxFull if each asks about
	// so many. Those that take longer than requestTimeout are not counted.
	maxReads = 8
	maxFull  = 64
)

// proofs asks whether leases are there, for all that want to know at a time
// together: many leases are renewed at once.
type proofs struct {
	mu      sync.Mutex
	waiting []*proof
	readers int
}

// proof is the question of one.
type proof struct {
	key, broken string
	deadline    time.Time
	done        chan struct{}

	// Guarded by proofs.mu.
	reads int  // under way
	ended bool // done is closed

	// Set before done is closed.
	own, news []*mvccpb.KeyValue
	term      uint64
	err       error
}

// prove reads the key of l, without its value, and the news of its end, in one
// linearizable read that is sent after prove was called. It returns a *LostError if
// the key is gone.
func (l *lease) prove(ctx context.Context) (*proof, error) {
	p := &proof{key: l.key, broken: l.s.brokenKey(l.id), done: make(chan struct{})}
	p.deadline, _ = ctx.Deadline()
	l.s.proofs.add(p, l.s.readProofs)
	select {
	case <-p.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.err != nil {
		return nil, p.err
	}
	return p, l.check(p.own, p.news)
}

// reader reads for a batch, and returns how to fill in what it has read for one of it.
type reader = func(batch []*proof) (fill func(i int, p *proof), err error)

func (q *proofs) add(p *proof, read reader) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, p)
	if q.readers < maxReads || len(q.waiting) >= maxBatch && q.readers < maxFull {
		q.readers++
		go q.serve(read)
	}
}

// serve reads in batches until nobody waits. An answer that takes longer than requestTimeout may
// come in time for a lease with a long TTL, or never: the member may be stuck. So another serve
// goes on in the place of this one, and asks again, perhaps another member.
func (q *proofs) serve(read reader) {
	for {
		q.mu.Lock()
		n := min(len(q.waiting), maxBatch)
		if n == 0 {
			q.waiting = nil
			q.readers--
			q.mu.Unlock()
			return
		}
		batch := q.waiting[:n:n]
		q.waiting = q.waiting[n:]
		for _, p := range batch {
			p.reads++
		}
		q.mu.Unlock()
		late := time.AfterFunc(requestTimeout, func() {
			q.repeat(batch)
			q.serve(read)
		})
		fill, err := read(batch)
		q.settle(batch, fill, err)
		if !late.Stop() {
			return
		}
	}
}

// repeat has those of a batch read again that have no answer yet.
func (q *proofs) repeat(batch []*proof) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range batch {
		if !p.ended {
			q.waiting = append(q.waiting, p)
		}
	}
}

// settle ends those of a batch that had no answer yet, unless the read has failed and another one is
// under way.
func (q *proofs) settle(batch []*proof, fill func(int, *proof), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, p := range batch {
		p.reads--
		switch {
		case p.ended, err != nil && p.reads > 0:
			continue
		case err != nil:
			p.err = err
		default:
			fill(i, p)
		}
		p.ended = true
		close(p.done)
	}
}

// until returns when a read for all of batch ends: when none of them has time.
func until(batch []*proof) time.Time {
	last := slices.MaxFunc(batch, func(a, b *proof) int { return a.deadline.Compare(b.deadline) })
	return last.deadline
}

// readProofs asks for all of batch.
func (s *store) readProofs(batch []*proof) (fill func(int, *proof), err error) {
	ops := make([]clientv3.Op, 0, 2*len(batch))
	for _, p := range batch {
		ops = append(ops, clientv3.OpGet(p.key, clientv3.WithKeysOnly()), clientv3.OpGet(p.broken))
	}
	ctx, cancel := context.WithDeadline(s.ctx, until(batch))
	defer cancel()
	sent := driver.Now()
	resp, err := s.client.Txn(bounded{ctx, context.Background()}).Then(ops...).Commit()
	s.ended(ctx, sent)
	if err != nil {
		return nil, err
	}
	s.term.Store(resp.Header.RaftTerm)
	s.saw(resp.Header.Revision)
	return func(i int, p *proof) {
		p.own = resp.Responses[2*i].GetResponseRange().Kvs
		p.news = resp.Responses[2*i+1].GetResponseRange().Kvs
		p.term = resp.Header.RaftTerm
	}, nil
}
