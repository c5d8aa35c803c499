// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
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
	// so many.
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

	// Set before done is closed.
	own, news []*mvccpb.KeyValue
	term      uint64
	err       error
}

// prove reads the key of g, without its value, and the news of its end, in one
// linearizable read that is sent after prove was called. It returns a *LostError if
// the key is gone.
func (g *grant) prove(ctx context.Context) (*proof, error) {
	p := &proof{key: g.key, broken: g.s.brokenKey(g.lease), done: make(chan struct{})}
	p.deadline, _ = ctx.Deadline()
	q := &g.s.proofs
	q.mu.Lock()
	q.waiting = append(q.waiting, p)
	if q.readers < maxReads || len(q.waiting) >= maxBatch && q.readers < maxFull {
		q.readers++
		go q.serve(g.s)
	}
	q.mu.Unlock()
	select {
	case <-p.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.err != nil {
		return nil, p.err
	}
	return p, g.check(p.own, p.news)
}

// serve answers until nobody waits.
func (q *proofs) serve(s *store) {
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
		q.mu.Unlock()
		s.answer(batch)
	}
}

// until returns when a read for all of batch ends: when none of them has time, and before
// requestTimeout is over.
func until(batch []*proof, now time.Time) time.Time {
	var latest time.Time
	for _, p := range batch {
		if p.deadline.After(latest) {
			latest = p.deadline
		}
	}
	if most := now.Add(requestTimeout); latest.After(most) {
		return most
	}
	return latest
}

// answer asks for all of batch.
func (s *store) answer(batch []*proof) {
	ops := make([]clientv3.Op, 0, 2*len(batch))
	for _, p := range batch {
		ops = append(ops, clientv3.OpGet(p.key, clientv3.WithKeysOnly()), clientv3.OpGet(p.broken))
	}
	ctx, cancel := context.WithDeadline(s.ctx, until(batch, time.Now()))
	defer cancel()
	sent := driver.Now()
	resp, err := s.client.Txn(bounded{ctx, context.Background()}).Then(ops...).Commit()
	s.ended(ctx, sent)
	if err == nil {
		s.term.Store(resp.Header.RaftTerm)
		s.saw(resp.Header.Revision)
	}
	for i, p := range batch {
		if p.err = err; err == nil {
			p.own = resp.Responses[2*i].GetResponseRange().Kvs
			p.news = resp.Responses[2*i+1].GetResponseRange().Kvs
			p.term = resp.Header.RaftTerm
		}
		close(p.done)
	}
}
