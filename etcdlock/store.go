// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// store is one participant.
type store struct {
	client  *clientv3.Client
	where   string        // the members, for people
	links   *links        // of our own client; nil if it is the caller's
	session *session      // of our own client, if it has a user
	id      string        // of this participant
	prefix  string        // of all keys but those of locks
	layout  layout        // of those
	connect time.Duration // to make a connection
	leases  pb.LeaseClient
	kv      pb.KVClient
	pulses  [pulses]pulse
	term    atomic.Uint64 // a raft term that an answer to a read has named; see beat
	proofs  proofs
	known   atomic.Pointer[known]
	limits  limits
	doubts  chan struct{} // there is something for reconcile

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // the listener, and what it has started

	mu     sync.Mutex // guards the fields below
	ear    bool       // the listener runs
	spares map[int64][]*backing
	grants map[string]*grant // by mark
	ids    map[string]bool   // of leases of this participant that are there, or may be
	keys   map[string]bool   // that they have, or may have; see reconcile
	// Etcd leases that must not be used again.
	tainted map[clientv3.LeaseID]bool
	// Names for which somebody was in the way last; see isContended.
	contended map[string]bool
}

var (
	_ driver.Queuer    = (*store)(nil)
	_ driver.Inspector = (*store)(nil)
	_ driver.Recaller  = (*store)(nil)
)

// Guarantees implements driver.Driver.
func (s *store) Guarantees() driver.Guarantees {
	return driver.Guarantees{
		Fencing: true, FIFO: true, CrossHost: true, Expiry: true, SurvivesRestart: true,
		Shared: !s.layout.mixed, Slots: !s.layout.mixed, // the other library knows neither
	}
}

// TryAcquire implements driver.Driver. It does not overtake those who wait.
func (s *store) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if !s.first(req.Lease) {
		q, err := s.queue(ctx, req.Name)
		if err != nil {
			return nil, err
		}
		return nil, &driver.HeldError{Info: q.info(req.Name)}
	}
	return s.only(req.Lease)(s.tryAcquire(ctx, req))
}

// first reports whether an attempt is no repetition of one that is there, or may be:
// there must not be two. Nobody else makes it, so it is enough to know it here.
func (s *store) first(lease string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.ids[lease]
	s.ids[lease] = true
	return !known
}

// only passes on how an attempt has ended. If nothing is there it can be repeated.
func (s *store) only(lease string) func(driver.Grant, error) (driver.Grant, error) {
	return func(g driver.Grant, err error) (driver.Grant, error) {
		if g == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.ids, lease)
		}
		return g, err
	}
}

func (s *store) tryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	for {
		a, fail := s.attempt(ctx, req)
		if fail != nil {
			return nil, fail.err
		}
		g, fail := a.try(ctx)
		switch {
		case fail == nil:
			return g, nil
		case !fail.gone || a.known:
			s.askBack(ctx, fail.kept)
			return a.undo(fail)
		}
		// The spare had gone. The next one, or a new one.
		s.disown(a.key)
	}
}

// usable returns why a request must not even be begun.
func (s *store) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return unavailable(errClosed)
	}
	return nil
}

// attempt is one request on its way to a lease.
type attempt struct {
	s      *store
	req    *driver.Request
	place  place
	key    string
	record draft
	*backing
	known bool  // the cluster has just said that the etcd lease is there
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
	p := s.layout.place(req.Name)
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
			return &attempt{s: s, req: req, place: p, key: key, record: s.newRecord(req), backing: b, known: known}, nil
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
	since, err := g.verify(rctx)
	if err != nil {
		a.s.forget(g)
		fail := a.s.classify(ctx, err)
		fail.maybe = true
		return nil, fail
	}
	g.first = since
	return g, nil
}

// placed notes that the key has been created. One that can be no token is deleted again.
func (a *attempt) placed(ctx context.Context, rev int64) *failure {
	why := checkRevision(rev)
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
		backing: a.backing, first: a.since, rev: a.rev, mod: a.rev,
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

// Close implements driver.Driver.
func (s *store) Close() error {
	if s.ctx.Err() != nil {
		return nil
	}
	s.mu.Lock()
	s.cancel()
	spares := s.spares
	s.mu.Unlock()
	s.giveBack(spares)
	var err error
	if s.links != nil && s.client != nil {
		err = s.client.Close()
	}
	s.work.Wait()
	return err
}
