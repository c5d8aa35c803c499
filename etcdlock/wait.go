// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-go/pawl/driver"
)

// waits is the answer to a waiter. It looks with each keepalive of its etcd lease as well, in case that its
// watch has failed silently.
func (l *lease) waits() driver.Answer {
	return driver.Answer{Rank: 1, Free: -1, Again: max(l.backing.due().Sub(driver.Now()), time.Millisecond), Session: l.s}
}

// join puts the keys of the lease at the end of the queue, if they are not there
// already, and reads who was the last there. It grants the name if there was nobody,
// and else begins to watch the last. Repeating it after a lost answer does no harm.
func (l *lease) join(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	from, to := l.place.rivals(req)
	last := read(&pb.RangeRequest{
		Key: []byte(from), RangeEnd: []byte(to), KeysOnly: true,
		SortOrder: pb.RangeRequest_DESCEND, SortTarget: pb.RangeRequest_CREATE, Limit: 1,
	})
	resp, err := l.commit(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{l.absent()},
		Success: append([]*pb.RequestOp{last}, l.puts()...),
		Failure: []*pb.RequestOp{read(&pb.RangeRequest{Key: []byte(l.key), KeysOnly: true})},
	})
	if err != nil {
		return driver.Answer{}, err
	}
	kvs := resp.Responses[0].GetResponseRange().Kvs
	if !resp.Succeeded { // the key is there: the join was carried out before
		l.sight = new(sight)
		if err := l.placed(ctx, kvs[0].CreateRevision); err != nil {
			return driver.Answer{}, err
		}
		return l.step(ctx, req)
	}
	l.s.setContended(req.Name, len(kvs) > 0)
	if len(kvs) == 0 {
		return l.won(ctx, req, resp.Header, resp.Header.Revision)
	}
	if err := l.placed(ctx, resp.Header.Revision); err != nil {
		return driver.Answer{}, err
	}
	l.sight = new(sight) // it has waited
	q := l.s.readQueue(kvs)
	if len(q) == 0 || req.Slots > 0 {
		return l.step(ctx, req)
	}
	l.watch(&looked{rival: &q[0]})
	return l.waits(), nil // it looks when the watch is there
}

// step looks for a waiter, and keeps its place. The waiter bears every failure that may pass.
func (l *lease) step(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	var err error
	if driver.Now() >= l.backing.due() {
		rctx, cancel := l.s.request(ctx)
		err = l.backing.keepAlive(rctx, l.s, 0)
		cancel()
		if err != nil && !unknownLease(err) {
			return driver.Answer{}, l.s.failure(ctx, err, false)
		}
	}
	seen, fail := l.look(ctx, req)
	switch {
	case fail != nil:
		return driver.Answer{}, fail
	case err != nil: // the key is there: that member is behind
		return driver.Answer{}, l.s.failure(ctx, err, false)
	case seen.rival == nil:
		return l.claim(ctx, req, seen)
	}
	if !l.backing.proven(seen.term) {
		l.backing.asked = l.backing.since // the next keepalive is due earlier
	}
	l.watch(seen)
	return l.waits(), nil
}

// maxContended is how many names are remembered as contended.
const maxContended = 1000

// isContended reports whether somebody was in the way when this participant asked for the
// name last. Then it stands in the queue at once. Otherwise it asks first whether it can
// have the name: that is one operation less, and nearly always enough.
func (s *store) isContended(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.contended[name]
}

func (s *store) setContended(name string, contended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !contended:
		delete(s.contended, name)
	case len(s.contended) < maxContended:
		s.contended[name] = true
	default:
		s.contended = map[string]bool{name: true}
	}
}

// sleep returns after d, or with ctx.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
