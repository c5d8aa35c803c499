// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// claimTTL is how long a name that was handed to a waiter stays its own until it asks
// for more.
const claimTTL = time.Second

var claimMicros = num(claimTTL.Microseconds())

var errEnded = fmt.Errorf("%w: somebody has ended the lease before this client knew that it was granted", driver.ErrUncertain)

// TryAcquire implements driver.Driver. It does not overtake waiters.
func (s *store) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if err := s.usable(ctx, req); err != nil {
		return nil, err
	}
	a := s.attempt(req)
	defer a.expectRecall()()
	g, turn, f := a.ask(ctx, noWait)
	for f == nil && g == nil && turn.rank == 0 && len(turn.holders) == 0 { // waiters who had gone were in the way
		g, turn, f = a.ask(ctx, noWait)
	}
	switch {
	case f != nil:
		return a.undo(f)
	case g != nil:
		return g, nil
	case turn.closed > 0 && len(turn.holders) == 0:
		return nil, s.closedFor(turn.closed)
	}
	return nil, &driver.HeldError{Info: turn.info(req.Name)}
}

func (s *store) closedFor(left time.Duration) error {
	s.limit.mu.Lock()
	t := s.limit.learnt
	s.limit.mu.Unlock()
	return fmt.Errorf("%w; if there are none, end the wait with pglock.Bless", &driver.ClosedError{Left: left, MaxTTL: t.TTL, SetBy: t.Holder()})
}

// attempt is one request on its way to a lease.
type attempt struct {
	s      *store
	req    *driver.Request
	kind   int
	record string
	doubt  bool  // a request was sent and its answer did not come
	asked  bool  // once
	place  int64 // in the queue, once there
	waiter waiter
}

func (s *store) attempt(req *driver.Request) *attempt {
	a := &attempt{s: s, req: req, kind: kindOf(req), record: s.records.Of(req, req.Keeps && !s.ear.deaf())} // deaf, others would ask in vain
	if req.Keeps {
		a.waiter.recall = new(recall)
	}
	return a
}

// How a caller waits.
const (
	noWait = 0
	hears  = 1
	looks  = 2
)

// turn is the store's answer when it does not grant.
type turn struct {
	left    time.Duration // until the lease may be granted if none is renewed
	rank    int           // in the queue, negative if not there; 0 also if waiters who had gone have left it
	closed  time.Duration
	holders []driver.Held // only for noWait
}

func (t turn) info(name string) *driver.Info {
	info := &driver.Info{Name: name, Holders: t.holders}
	for _, h := range t.holders {
		info.Token = max(info.Token, h.Token)
	}
	return info
}

// ask calls the function that grants, once, and joins the queue unless wait is noWait.
func (a *attempt) ask(ctx context.Context, wait int) (*grant, turn, *failure) {
	s := a.s
	var from session // before the request is sent
	if wait == hears {
		from = s.ear.session()
	}
	if r := a.waiter.recall; r != nil {
		r.from = s.ear.session()
	}
	alone := func() ([][]byte, driver.Instant, *failure) {
		return s.bound(ctx, s.sql.acquire, a.req.Name, a.req.Lease, s.id, num(int64(a.kind)), a.record,
			num(a.req.TTL.Microseconds()), claimMicros, num(int64(wait)), num(pollGone.Microseconds()), num(a.place))
	}
	var row [][]byte
	var sent driver.Instant
	var f *failure
	if a.kind == 0 && !a.asked { // later the name is not free, or its own
		ttl := num(a.req.TTL.Microseconds())
		row, sent, f = s.takes.ask(ctx, []string{a.req.Name, a.req.Lease, a.record, ttl}, alone, s.takeAll)
	} else {
		row, sent, f = alone()
	}
	a.asked = true
	if f != nil {
		a.doubt = a.doubt || f.maybe
		return nil, turn{}, f
	}
	token, at := long(row[1]), long(row[4])
	switch integer(row[0]) {
	case 1:
		g := a.granted(uint64(token), sent)
		g.spare, g.others = uint64(long(row[2])), string(row[3]) == "t"
		s.saw(sent, at)
		return g, turn{}, nil
	case tombstone:
		return nil, turn{}, &failure{err: errEnded, lasting: true}
	case otherSlots:
		return nil, turn{}, &failure{err: &driver.SlotsError{Held: int(token), Wanted: a.req.Slots}, maybe: a.doubt, lasting: true}
	case tooLong:
		err := fmt.Errorf("pglock: %w", s.limit.tooLong(a.req.TTL, time.Duration(token)*time.Microsecond))
		return nil, turn{}, &failure{err: err, maybe: a.doubt, lasting: true}
	}
	s.saw(sent, at)
	t := turn{left: time.Duration(long(row[5])) * time.Microsecond, rank: integer(row[6]), closed: time.Duration(long(row[7])) * time.Microsecond}
	if len(row[9]) > 0 {
		a.place = long(row[9])
	}
	if len(row[8]) > 0 {
		t.holders = readHolders(row[8])
	}
	a.waiter.seen = look{storekit.Look{Sent: sent, At: time.Duration(at) * time.Microsecond}, from}
	return nil, t, nil
}

// granted makes the grant and, in the same step, ends the waiting for it, so that a
// message about this lease finds either the waiter or the grant.
func (a *attempt) granted(token uint64, since driver.Instant) *grant {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return a.begin(token, since, storekit.Term{Sent: since, Heard: driver.Now(), TTL: a.req.TTL})
}

// begin is granted with store.mu held.
func (a *attempt) begin(token uint64, since driver.Instant, t storekit.Term) *grant {
	g := &grant{s: a.s, name: a.req.Name, lease: a.req.Lease, kind: a.kind, token: token, since: since, doubt: a.doubt, term: t}
	a.passRecall(g)
	delete(a.s.waiters, g.lease)
	a.s.grants[g.lease] = g
	return g
}

// undo returns the error of a failed attempt and, if that may have been carried out, a
// grant whose release undoes it.
func (a *attempt) undo(f *failure) (driver.Grant, error) {
	if !f.maybe {
		return nil, f.err
	}
	return &grant{s: a.s, name: a.req.Name, lease: a.req.Lease, kind: a.kind, doubt: a.doubt, unsure: true}, f.err
}

// kindOf returns the kind of lease as it is in the store.
func kindOf(req *driver.Request) int {
	if req.Shared {
		return shared
	}
	return req.Slots
}

const shared = -1
