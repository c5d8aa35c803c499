// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-go/pawl/driver"
)

// attempt is one request on its way to a lease.
type attempt struct {
	s      *store
	req    *driver.Request
	place  place
	key    string
	record draft
	*backing
	known bool  // the cluster has just said that the etcd lease is there
	after int64 // the revision of the cluster before the attempt, as far as it was known
	rev   int64 // create revision of the key; 0 until it is known to be there
	late  bool  // a join had no answer, and was repeated: it may be carried out yet
	sight *sight
	// Until when it is known whether others are behind it, if it may be kept; see recall.
	seen   int64
	behind bool
}

// attempt begins one, with an etcd lease. Nothing else is recorded yet.
func (s *store) attempt(ctx context.Context, req *driver.Request) (*attempt, *failure) {
	if err := s.usable(ctx); err != nil {
		return nil, &failure{err: err, lasting: true}
	}
	if req.Lease == "" || strings.ContainsAny(req.Lease, "/ \n") {
		return nil, &failure{err: fmt.Errorf("etcdlock: lease id %q: use letters and digits", driver.Shorten(req.Lease)), lasting: true}
	}
	if err := s.layout.check(req.Name); err != nil {
		return nil, &failure{err: err, lasting: true}
	}
	p, seen := s.layout.place(req.Name), s.rev.Load()
	for {
		b := s.takeSpare(seconds(req.TTL))
		known := b == nil || !b.fresh(driver.Now(), req.TTL)
		if known {
			var err error
			if b, err = s.back(ctx, b, req.TTL); err != nil {
				return nil, s.unrecorded(ctx, err)
			}
		}
		if key := p.key(req, b.id); s.own(key, b.id) {
			return &attempt{s: s, req: req, place: p, key: key, record: s.newRecord(req), backing: b, known: known, after: seen}, nil
		}
	}
}

// puts are the operations that create the keys of the attempt.
func (a *attempt) puts() []*pb.RequestOp { return a.bind(a.key, a.record.String()) }

// unrivalled is true if all keys that can be in the way were created by revision rev,
// and that of the attempt is not there; 0 means that there are none at all.
func (a *attempt) unrivalled(rev int64) []*pb.Compare {
	from, to := a.place.rivals(a.req)
	cmps := []*pb.Compare{created(from, to, pb.Compare_LESS, rev+1)}
	if rev > 0 || a.req.Shared { // it may be there, and not be among them
		cmps = append(cmps, a.absent())
	}
	return cmps
}

// absent is true if the key is not there: an attempt may be repeated.
func (a *attempt) absent() *pb.Compare { return created(a.key, "", pb.Compare_EQUAL, 0) }

// try asks once. If others are in the way it looks at them: shared leases and
// slots may be held together. Then it asks again, on condition that nobody has
// come meanwhile.
func (a *attempt) try(ctx context.Context) (*grant, *failure) {
	from, to := a.place.all()
	list := &pb.RangeRequest{Key: []byte(from), RangeEnd: []byte(to), SortOrder: pb.RangeRequest_ASCEND, SortTarget: pb.RangeRequest_CREATE}
	if !a.req.Shared && a.req.Slots == 0 {
		list.Limit = maxShown
	}
	for rev := int64(0); ; {
		resp, fail := a.commit(ctx, &pb.TxnRequest{
			Compare: a.unrivalled(rev), Success: a.puts(), Failure: []*pb.RequestOp{read(list)},
		})
		if fail != nil {
			return nil, fail
		}
		if resp.Succeeded {
			return a.won(ctx, resp.Header)
		}
		read := resp.Responses[0].GetResponseRange()
		q := a.s.readQueue(read.Kvs)
		err := q.inTheWay(a.req)
		if err == nil && read.More { // what was read of it is not ours
			err = &driver.HeldError{}
		}
		if err != nil {
			return nil, &failure{err: err, lasting: true, kept: q.kept()}
		}
		rev = resp.Header.Revision
	}
}

// commit sends one transaction.
func (a *attempt) commit(ctx context.Context, txn *pb.TxnRequest) (*pb.TxnResponse, *failure) {
	rctx, cancel := a.s.request(ctx)
	defer cancel()
	resp, err := a.s.txn(rctx, txn)
	switch {
	case err == nil:
		a.s.saw(resp.Header.Revision)
		return resp, nil
	case unknownLease(err):
		// Refused as a whole. The etcd lease was revoked, or has expired.
		return nil, &failure{err: unavailable(fmt.Errorf("the request took longer than its TTL of %v: %w", a.req.TTL, err)), gone: true}
	}
	return nil, a.s.classify(ctx, err)
}

// won makes the grant of a key that a transaction has just put, with nobody in the way.
func (a *attempt) won(ctx context.Context, h *pb.ResponseHeader) (*grant, *failure) {
	if fail := a.placed(ctx, h.Revision); fail != nil {
		return nil, fail
	}
	return a.claim(ctx, h.RaftTerm)
}

// claim makes the grant of a key that holds the name, as a linearizable answer of
// the given term has said. If not enough time is certain, it asks for more first.
func (a *attempt) claim(ctx context.Context, term uint64) (*grant, *failure) {
	proven := a.proven(term)
	g := a.granted()
	if proven && driver.Now().Sub(a.since) < a.req.TTL/2 {
		return g, nil
	}
	rctx, cancel := a.s.request(ctx)
	defer cancel()
	if err := g.verify(rctx, g.backing, 0); err != nil {
		a.s.forget(g)
		fail := a.s.classify(ctx, err)
		fail.maybe = true
		return nil, fail
	}
	g.first, g.told = g.backing.since, g.backing.since
	return g, nil
}

// placed notes that the key has been created. One that can be no token is deleted again.
func (a *attempt) placed(ctx context.Context, rev int64) *failure {
	why := checkRevision(rev)
	if why == nil {
		why = checkOrder(rev, a.after)
	}
	if why == nil {
		a.rev, a.seen, a.marked = rev, rev, true
		return nil
	}
	rctx, cancel := a.s.request(ctx)
	defer cancel()
	if _, err := a.s.client.Delete(rctx, a.key); err != nil || a.late {
		return &failure{err: fmt.Errorf("%w: %w", driver.ErrUncertain, why), lasting: true, maybe: true}
	}
	return &failure{err: why, lasting: true}
}

// granted makes the grant.
func (a *attempt) granted() *grant {
	g := &grant{
		s: a.s, lease: a.req.Lease, key: a.key, mark: a.mark, record: a.record,
		backing: a.backing, first: a.since, told: a.since, rev: a.rev, mod: a.rev,
		alone:   !a.req.Shared && a.req.Slots == 0,
		written: a.sight == nil,
	}
	if a.late {
		g.late = a.id
	}
	if keeps(a.req) {
		g.recall = a.recall()
	}
	if a.sight != nil {
		g.record.Acquired = time.Now().UnixMicro()
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.s.grants[g.mark] = g
	return g
}

// undo returns the error of a failed attempt and, if that may have recorded
// something, a grant whose release undoes it.
func (a *attempt) undo(fail *failure) (driver.Grant, error) {
	if !fail.maybe {
		a.s.disown(a.key)
		if !fail.gone {
			a.s.spare(a.backing)
		}
		return nil, fail.err
	}
	a.s.doubt()
	return &grant{s: a.s, lease: a.req.Lease, key: a.key, backing: a.backing, unsure: true}, fail.err
}
