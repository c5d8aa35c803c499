// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// errGone says that the etcd lease or the key of a lease has ended. The cluster has nothing of the lease left.
var errGone = errors.New("etcdlock: the lease or its place in the queue has ended")

// Ask implements driver.Store. A lease that has lost its place in the queue joins at the end.
func (s *store) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	if err := s.check(ctx, req); err != nil {
		return driver.Answer{}, &driver.Failure{Err: err, Lasting: true}
	}
	l, _ := req.Handle.(*lease)
	for {
		again := l != nil && l.over() == nil
		if !again {
			var err error
			if l, err = s.newLease(ctx, req); err != nil {
				return driver.Answer{}, s.failure(ctx, err, false)
			}
		}
		ans, err := l.ask(ctx, req, again)
		if ans.Handle = l; !errors.Is(err, errGone) {
			l.settle(ctx, again, ans.Granted, err)
			return ans, err
		}
		s.disown(l, errGone)
		if again { // an earlier request may still be carried out; revoke undoes it
			gone := l // the next iteration sets l
			s.background(func() { _ = gone.revoke(s.ctx) })
		} else if l.fresh {
			return ans, &driver.Failure{Err: fmt.Errorf("the request took longer than its TTL of %v: use a longer TTL", req.TTL), Passing: true}
		}
	}
}

func (s *store) check(ctx context.Context, req *driver.Request) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.layout.check(req.Name)
}

// newLease returns a lease that has an etcd lease and no key yet.
func (s *store) newLease(ctx context.Context, req *driver.Request) (*lease, error) {
	p, seen := s.layout.place(req.Name), s.rev.Load()
	b := s.takeSpare(seconds(req.TTL))
	known := b == nil || !b.fresh(driver.Now(), req.TTL)
	if known {
		var err error
		if b, err = s.back(ctx, b, req.TTL); err != nil {
			return nil, err
		}
	}
	l := &lease{
		s: s, id: req.Lease, name: req.Name, ttl: req.TTL, place: p, key: p.key(req, b.id), named: b.id,
		alone: !req.Shared && req.Slots == 0, after: seen, backing: b, fresh: known, record: s.newRecord(req),
	}
	s.own(l)
	return l, nil
}

// ask sends the requests that the state of the lease needs. If it returns errGone, the caller needs a new lease.
func (l *lease) ask(ctx context.Context, req *driver.Request, again bool) (driver.Answer, error) {
	switch {
	case l.held:
		return l.again(ctx)
	case l.rev != 0:
		return l.step(ctx, req)
	case !req.Queue:
		return l.try(ctx, req)
	case req.Slots > 0 && !again: // try fails if the name is held in another number of slots
		if ans, err := l.try(ctx, req); err != nil || ans.Granted {
			return ans, err
		}
	}
	return l.join(ctx, req)
}

// settle forgets the lease if the cluster has refused it and recorded nothing.
func (l *lease) settle(ctx context.Context, again, granted bool, err error) {
	var f *driver.Failure
	switch {
	case errors.As(err, &f) && (f.Maybe || again), granted, l.rev != 0: // the key exists or may exist
	case again: // refused, but an earlier request may still be carried out
		_ = l.revoke(ctx) // on an error the etcd lease ends with its TTL
		l.s.disown(l, errGone)
	default:
		l.s.disown(l, errGone)
		l.s.spare(l)
	}
}

// commit sends one transaction.
func (l *lease) commit(ctx context.Context, cmps []clientv3.Cmp, then []clientv3.Op, or clientv3.Op) (*clientv3.TxnResponse, error) {
	rctx, cancel := l.s.request(ctx)
	defer cancel()
	resp, err := l.s.client.Txn(rctx).If(cmps...).Then(then...).Else(or).Commit()
	switch {
	case err == nil:
		l.s.saw(resp.Header.Revision)
		return resp, nil
	case unknownLease(err): // the cluster has refused the whole transaction
		return nil, errGone
	}
	return nil, l.s.failure(ctx, err, true)
}

// puts returns the operations that create the keys of the lease.
func (l *lease) puts() []clientv3.Op { return l.backing.bind(l.key, encode(&l.record)) }

// unrivalled returns conditions. They hold if no key that can be in the way was created after revision rev, and
// the key of the lease does not exist. If rev is 0, they hold only if no key is in the way.
func (l *lease) unrivalled(req *driver.Request, rev int64) []clientv3.Cmp {
	from, to := l.place.rivals(req)
	cmps := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(from), "<", rev+1).WithRange(to)}
	if rev > 0 || req.Shared { // the range may not contain the lease's key
		cmps = append(cmps, l.absent())
	}
	return cmps
}

// absent returns the condition that the lease's key does not exist. It exists if the request is a repetition.
func (l *lease) absent() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(l.key), "=", 0)
}

// try asks for the name without joining the queue. If other keys exist, it reads them, because shared leases and
// slots can be held together. Then it asks again, with the condition that no key was created in the meantime.
func (l *lease) try(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	from, to := l.place.all()
	opts := []clientv3.OpOption{clientv3.WithRange(to), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)}
	if l.alone {
		opts = append(opts, clientv3.WithLimit(maxShown))
	}
	for rev := int64(0); ; {
		resp, err := l.commit(ctx, l.unrivalled(req, rev), l.puts(), clientv3.OpGet(from, opts...))
		if err != nil {
			return driver.Answer{}, err
		}
		if resp.Succeeded {
			return l.won(ctx, req, resp.Header, resp.Header.Revision)
		}
		read := resp.Responses[0].GetResponseRange()
		q := l.s.readQueue(read.Kvs)
		if i := q.find(l.key); i >= 0 && i < q.holders() { // an earlier request has put the key
			return l.won(ctx, req, resp.Header, q[i].kv.CreateRevision)
		}
		err = q.inTheWay(req)
		if held := (*driver.HeldError)(nil); errors.As(err, &held) || err == nil && read.More { // err == nil && More: all keys that were read belong to other programs
			if !req.Queue && len(q) > 0 {
				l.s.askBack(ctx, q[0], false)
			}
			ans := driver.Answer{Rank: 1, Free: -1}
			if held != nil {
				ans.Holders = held.Info.Holders
			}
			return ans, nil
		}
		if err != nil {
			return driver.Answer{}, &driver.Failure{Err: err, Lasting: true}
		}
		rev = resp.Header.Revision
	}
}

// won grants the lease. Its key was created at rev, when no other key was in the way.
func (l *lease) won(ctx context.Context, req *driver.Request, h *pb.ResponseHeader, rev int64) (driver.Answer, error) {
	if err := l.placed(ctx, rev); err != nil {
		return driver.Answer{}, err
	}
	return l.claim(ctx, req, &looked{term: h.RaftTerm, rev: rev})
}

// placed records that the key was created at rev. If checkRevision refuses rev, placed deletes the key.
func (l *lease) placed(ctx context.Context, rev int64) error {
	why := checkRevision(rev, l.after)
	if why == nil {
		l.s.mu.Lock()
		defer l.s.mu.Unlock()
		l.rev, l.backing.marked = rev, true
		return nil
	}
	rctx, cancel := l.s.request(ctx)
	defer cancel()
	_, err := l.s.client.Delete(rctx, l.key)
	return &driver.Failure{Err: why, Lasting: true, Maybe: err != nil}
}

// claim grants the lease, after a linearizable answer has shown that its key holds the name. If too little of the
// TTL is certain, claim renews first.
func (l *lease) claim(ctx context.Context, req *driver.Request, seen *looked) (driver.Answer, error) {
	if !l.backing.proven(seen.term) || driver.Now().Sub(l.backing.since) >= l.ttl/2 {
		rctx, cancel := l.s.within(ctx, min(l.backing.time(), 2*requestTimeout)) // a keepalive and a read
		defer cancel()
		if err := l.verify(rctx, l.backing); lostBy(err) != nil {
			return driver.Answer{}, errGone
		} else if err != nil {
			f := l.s.failure(ctx, err, true)
			f.Maybe = true
			return driver.Answer{}, f
		}
	}
	l.sight.close()
	l.told, l.held, l.shown = l.backing.since, true, !l.waited
	l.s.mu.Lock()
	if l.waited {
		l.record.Acquired = time.Now().UnixMicro()
	}
	l.s.listen(seen.rev)
	l.s.mu.Unlock()
	return l.answer(l.told), nil
}

// again answers a repeated request for a lease that was granted already.
func (l *lease) again(ctx context.Context) (driver.Answer, error) {
	since, err := l.renew(ctx, 0)
	switch {
	case lostBy(err) != nil || l.over() != nil:
		return driver.Answer{}, errGone
	case err != nil:
		return driver.Answer{}, l.s.failure(ctx, err, false)
	}
	return l.answer(since), nil
}
