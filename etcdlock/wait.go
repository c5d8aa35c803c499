// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-go/pawl/driver"
)

const (
	minPause = 10 * time.Millisecond // between attempts while the cluster is away
	maxPause = time.Second
)

// Acquire implements driver.Queuer. A waiter looks when the key that it watches
// goes, when its watch fails, and with each keepalive of its etcd lease, in case
// that the watch has failed silently.
func (s *store) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if !s.first(req.Lease) {
		return nil, fmt.Errorf("etcdlock: the lease id %q is in use", driver.Shorten(req.Lease))
	}
	return s.only(req.Lease)(s.acquire(ctx, req))
}

func (s *store) acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	queued, pause, away := false, minPause, driver.Outage{}
	for {
		sent := driver.Now()
		a, fail := s.attempt(ctx, req)
		if fail == nil {
			away.Over()
			var g *grant
			if g, fail = a.ask(ctx, &queued, &away); fail == nil {
				return g, nil
			}
			if !fail.gone || a.known && !queued {
				return a.undo(fail)
			}
			s.disown(a.key)
			if a.late {
				s.doubt() // its join may be carried out yet, and nobody knows of it then
			}
			pause = minPause
		} else if !queued || fail.lasting || ctx.Err() != nil || tooLong(&away, sent, req, fail) {
			return nil, fail.err
		}
		// The place is lost: go to the end of the queue.
		if fail := s.sleep(ctx, nil, pause/2+rand.N(pause/2)); fail != nil {
			return nil, fail.err
		}
		pause = min(2*pause, maxPause)
	}
}

// ask tries, if that can fail for good or is likely to be enough, and then waits.
func (a *attempt) ask(ctx context.Context, queued *bool, away *driver.Outage) (*grant, *failure) {
	switch {
	case *queued:
	case a.req.Slots > 0:
		if g, fail := a.try(ctx); fail == nil || !errors.Is(fail.err, driver.ErrHeld) {
			return g, fail
		}
	case !a.s.isContended(a.req.Name):
		if g, fail := a.alone(ctx); g != nil || fail != nil {
			return g, fail
		}
	}
	return a.wait(ctx, queued, away)
}

// alone asks for the name if nobody is in the way. It returns neither a grant nor a
// failure if somebody is.
func (a *attempt) alone(ctx context.Context) (*grant, *failure) {
	resp, fail := a.commit(ctx, &pb.TxnRequest{Compare: a.unrivalled(0), Success: a.puts()})
	if fail != nil || !resp.Succeeded {
		return nil, fail
	}
	return a.won(ctx, resp.Header)
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

// wait joins the queue and waits in it. Before it is there a failure is the
// caller's; after that it bears every failure that may pass, for a TTL, until the place is
// gone.
func (a *attempt) wait(ctx context.Context, queued *bool, away *driver.Outage) (*grant, *failure) {
	pause := minPause
	defer func() { a.sight.close() }()
	for {
		sent := driver.Now()
		g, fail := a.hurry(ctx)
		*queued = *queued || a.rev != 0
		var next time.Duration
		switch {
		case g != nil:
			return g, nil
		case fail == nil:
			away.Over()
			pause = minPause
			next = max(a.due().Sub(driver.Now()), minPause)
		case fail.gone && *queued:
			return nil, fail
		case !*queued, fail.lasting, ctx.Err() != nil, a.s.ctx.Err() != nil, tooLong(away, sent, a.req, fail):
			fail.maybe = fail.maybe || *queued
			return nil, fail
		default:
			next, pause = pause/2+rand.N(pause/2), min(2*pause, maxPause)
		}
		if fail := a.s.sleep(ctx, a.sight, next); fail != nil {
			fail.maybe = true
			return nil, fail
		}
	}
}

// tooLong notes that what was sent at an instant has failed, and reports whether that has
// gone on for a TTL. Then the failure says so.
func tooLong(away *driver.Outage, sent driver.Instant, req *driver.Request, fail *failure) bool {
	err := away.Failed(sent, req.TTL, fail.err)
	if err != nil {
		fail.err = err
	}
	return err != nil
}

// hurry makes a step that takes no longer than a TTL: a waiter with a short one wants to
// hear of an outage in time.
func (a *attempt) hurry(ctx context.Context) (*grant, *failure) {
	if a.req.TTL >= requestTimeout {
		return a.step(ctx)
	}
	soon, cancel := context.WithTimeout(ctx, a.req.TTL)
	defer cancel()
	g, fail := a.step(soon)
	if fail != nil && ctx.Err() == nil && soon.Err() != nil && errors.Is(fail.err, soon.Err()) {
		fail.err = unavailable(a.s.explain(soon.Err()))
		if fail.maybe {
			fail.err = fmt.Errorf("%w: %w", driver.ErrUncertain, a.s.explain(soon.Err()))
		}
	}
	return g, fail
}

// step does what has to be done next. It returns neither a grant nor a failure if
// that is to wait.
func (a *attempt) step(ctx context.Context) (*grant, *failure) {
	if a.rev == 0 {
		if g, fail := a.join(ctx); g != nil || fail != nil {
			return g, fail
		}
		if a.sight.cancel != nil {
			return nil, nil // look when the watch is there
		}
	}
	var err error
	if driver.Now() >= a.due() {
		rctx, cancel := a.s.request(ctx)
		err = a.keepAlive(rctx, a.s, 0)
		cancel()
		if err != nil && !unknownLease(err) {
			return nil, a.s.unrecorded(ctx, err)
		}
	}
	there := a.sight.there()
	l, fail := a.look(ctx)
	switch {
	case fail != nil:
		return nil, fail
	case err != nil: // the key is there: that member is behind
		return nil, a.s.unrecorded(ctx, err)
	}
	proven := a.proven(l.term)
	if l.rival == nil {
		a.seen, a.behind = l.rev, l.behind
		a.sight.close()
		return a.claim(ctx, l.term)
	}
	if !proven {
		a.asked = a.since // the next keepalive is due earlier
	}
	a.watch(l, there)
	return nil, nil
}

// join puts the keys of the attempt at the end of the queue, if they are not there
// already, and reads who was the last there. It returns the grant if there was nobody,
// and else begins to watch the last. Repeating it after a lost answer does no harm.
func (a *attempt) join(ctx context.Context) (*grant, *failure) {
	from, to := a.place.rivals(a.req)
	last := read(&pb.RangeRequest{
		Key: []byte(from), RangeEnd: []byte(to), KeysOnly: true,
		SortOrder: pb.RangeRequest_DESCEND, SortTarget: pb.RangeRequest_CREATE, Limit: 1,
	})
	resp, fail := a.commit(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{a.absent()},
		Success: append([]*pb.RequestOp{last}, a.puts()...),
		Failure: []*pb.RequestOp{read(&pb.RangeRequest{Key: []byte(a.key), KeysOnly: true})},
	})
	if fail != nil {
		a.late = a.late || fail.maybe
		return nil, fail
	}
	kvs := resp.Responses[0].GetResponseRange().Kvs
	if !resp.Succeeded { // the key is there: the join was carried out before
		a.sight = new(sight)
		return nil, a.placed(ctx, kvs[0].CreateRevision)
	}
	if fail := a.placed(ctx, resp.Header.Revision); fail != nil {
		return nil, fail
	}
	a.s.setContended(a.req.Name, len(kvs) > 0)
	if len(kvs) == 0 {
		return a.claim(ctx, resp.Header.RaftTerm)
	}
	a.sight = new(sight) // it has waited
	if q := a.s.readQueue(kvs); len(q) > 0 && a.req.Slots == 0 {
		a.watch(&looked{rival: &q[0]}, false)
	}
	return nil, nil
}

// sleep returns nil when it is time to look again.
func (s *store) sleep(ctx context.Context, w *sight, d time.Duration) *failure {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-w.changed():
		return nil
	case <-ctx.Done():
		return &failure{err: ctx.Err()}
	case <-s.ctx.Done():
		return &failure{err: unavailable(errClosed), lasting: true}
	}
}
