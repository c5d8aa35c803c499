// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-go/pawl/driver"
)

// errGone says that the etcd lease or the key of a lease has ended: nothing is left of it.
var errGone = errors.New("etcdlock: the lease or its place in the queue has ended")

// Ask implements driver.Store. A lease that has lost its place in the queue goes to the end.
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
		if again { // an earlier request may be carried out yet, and nobody knows of it then
			s.background(func() { _ = l.revoke(s.ctx) })
		} else if l.fresh {
			return ans, &driver.Failure{Err: fmt.Errorf("the request took longer than its TTL of %v", req.TTL), Passing: true}
		}
	}
}

func (s *store) check(ctx context.Context, req *driver.Request) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if req.Lease == "" || strings.ContainsAny(req.Lease, "/ \n") {
		return fmt.Errorf("etcdlock: lease id %q: use letters and digits", driver.Shorten(req.Lease))
	}
	return s.layout.check(req.Name)
}

// newLease begins one, with an etcd lease. Nothing else is recorded yet.
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

// ask asks once. An error that is errGone says that the lease has to begin anew.
func (l *lease) ask(ctx context.Context, req *driver.Request, again bool) (driver.Answer, error) {
	switch {
	case l.held:
		return l.again(ctx)
	case l.rev != 0:
		return l.step(ctx, req)
	case !req.Queue:
		return l.try(ctx, req)
	case req.Slots > 0 && !again: // of another number are held?
		if ans, err := l.try(ctx, req); err != nil || ans.Granted {
			return ans, err
		}
	}
	return l.join(ctx, req)
}

// settle forgets a lease of which nothing is recorded after an answer.
func (l *lease) settle(ctx context.Context, again, granted bool, err error) {
	var f *driver.Failure
	switch {
	case errors.As(err, &f) && (f.Maybe || again), granted, l.rev != 0: // it is there, or may be
	case again: // it was refused, and an earlier request may be carried out yet
		_ = l.revoke(ctx) // if not now, it goes with its TTL
		l.s.disown(l, errGone)
	default:
		l.s.disown(l, errGone)
		l.s.spare(l)
	}
}

// commit sends one transaction.
func (l *lease) commit(ctx context.Context, txn *pb.TxnRequest) (*pb.TxnResponse, error) {
	rctx, cancel := l.s.request(ctx)
	defer cancel()
	resp, err := l.s.txn(rctx, txn)
	switch {
	case err == nil:
		l.s.saw(resp.Header.Revision)
		return resp, nil
	case unknownLease(err): // refused as a whole
		return nil, errGone
	}
	return nil, l.s.failure(ctx, err, true)
}

// puts are the operations that create the keys of the lease.
func (l *lease) puts() []*pb.RequestOp { return l.backing.bind(l.key, encode(&l.record)) }

// unrivalled is true if all keys that can be in the way were created by revision rev,
// and that of the lease is not there; 0 means that there are none at all.
func (l *lease) unrivalled(req *driver.Request, rev int64) []*pb.Compare {
	from, to := l.place.rivals(req)
	cmps := []*pb.Compare{created(from, to, pb.Compare_LESS, rev+1)}
	if rev > 0 || req.Shared { // it may be there, and not be among them
		cmps = append(cmps, l.absent())
	}
	return cmps
}

// absent is true if the key is not there: a request may be repeated.
func (l *lease) absent() *pb.Compare { return created(l.key, "", pb.Compare_EQUAL, 0) }

// try asks and does not wait. If others are in the way it looks at them: shared leases and
// slots may be held together. Then it asks again, on condition that nobody has
// come meanwhile.
func (l *lease) try(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	from, to := l.place.all()
	list := &pb.RangeRequest{Key: []byte(from), RangeEnd: []byte(to), SortOrder: pb.RangeRequest_ASCEND, SortTarget: pb.RangeRequest_CREATE}
	if l.alone {
		list.Limit = maxShown
	}
	for rev := int64(0); ; {
		resp, err := l.commit(ctx, &pb.TxnRequest{
			Compare: l.unrivalled(req, rev), Success: l.puts(), Failure: []*pb.RequestOp{read(list)},
		})
		if err != nil {
			return driver.Answer{}, err
		}
		if resp.Succeeded {
			return l.won(ctx, req, resp.Header, resp.Header.Revision)
		}
		read := resp.Responses[0].GetResponseRange()
		q := l.s.readQueue(read.Kvs)
		if i := q.find(l.key); i >= 0 && i < q.holders() { // an earlier request has put it
			return l.won(ctx, req, resp.Header, q[i].kv.CreateRevision)
		}
		err = q.inTheWay(req)
		if held := (*driver.HeldError)(nil); errors.As(err, &held) || err == nil && read.More { // what was read of it is not ours
			if !req.Queue {
				l.s.askBack(ctx, q)
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

// won grants a lease whose key was created at rev, with nobody in the way.
func (l *lease) won(ctx context.Context, req *driver.Request, h *pb.ResponseHeader, rev int64) (driver.Answer, error) {
	if err := l.placed(ctx, rev); err != nil {
		return driver.Answer{}, err
	}
	return l.claim(ctx, req, &looked{term: h.RaftTerm, rev: rev})
}

// placed notes that the key has been created. One that can be no token is deleted again.
func (l *lease) placed(ctx context.Context, rev int64) error {
	why := cmp.Or(checkRevision(rev), checkOrder(rev, l.after))
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

// claim grants a lease whose key holds the name, as a linearizable answer has said. If not enough
// time is certain, it asks for more first.
func (l *lease) claim(ctx context.Context, req *driver.Request, seen *looked) (driver.Answer, error) {
	if !l.backing.proven(seen.term) || driver.Now().Sub(l.backing.since) >= l.ttl/2 {
		rctx, cancel := l.s.request(ctx)
		defer cancel()
		if err := l.verify(rctx, l.backing, 0); lostBy(err) != nil {
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
	if keeps(req) {
		l.overhear(seen.rev)
	}
	if l.waited {
		l.record.Acquired = time.Now().UnixMicro()
	}
	l.s.listen(seen.rev)
	l.s.mu.Unlock()
	return l.answer(l.told), nil
}

// again grants a lease that has been granted.
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
