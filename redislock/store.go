// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/cluster"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
	"github.com/pawl-go/pawl/redislock/internal/keys"
)

var errClosed = fmt.Errorf("redislock: %w", driver.ErrClosed)

// claimTTL is how long a lock that was handed to a waiter stays its own until it asks
// for more.
const claimTTL = time.Second

var claimMillis = epoch.Millis(claimTTL)

// store is one participant.
type store struct {
	server    *cluster.Cluster
	id        string // of this participant; names its channel
	prefix    string // of all keys but, with a pattern, those of the locks
	layout    *keys.Layout
	limit     *epoch.Limit
	mode      Mode
	assumeNew bool // see Options
	prompt    bool // a message that the lock was handed over may be trusted; see handed
	records   storekit.Records
	news      storekit.Outbox[driver.News]

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // what messages have started

	mu      sync.Mutex         // guards the fields below
	waiters map[string]*waiter // by lease
	grants  map[string]*grant  // by lease
}

var (
	_ driver.Queuer    = (*store)(nil)
	_ driver.Inspector = (*store)(nil)
	_ driver.Reporter  = (*store)(nil)
	_ driver.Describer = (*store)(nil)
	_ driver.Recaller  = (*store)(nil)
)

// Guarantees implements driver.Driver.
//
// SurvivesRestart is false although no restart gives a name to a second holder:
// a server without persistence forgets leases, and their holders lose them.
func (s *store) Guarantees() driver.Guarantees {
	return driver.Guarantees{Fencing: true, FIFO: true, CrossHost: true, Expiry: true, Shared: true, Slots: true}
}

// TryAcquire implements driver.Driver. It does not overtake waiters.
func (s *store) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if err := s.usable(ctx, req); err != nil {
		return nil, err
	}
	a := s.attempt(req)
	defer a.expectRecall()()
	g, turn, fail := a.ask(ctx, false)
	switch {
	case fail != nil:
		return a.undo(ctx, fail)
	case g != nil:
		return g, nil
	case turn.value != "" || turn.sharers != nil || turn.closed == 0: // by leases of another library, or reserved for a waiter
		return nil, &driver.HeldError{Info: turn.info(req.Name)}
	}
	return nil, closedFor(turn.closed)
}

func closedFor(left time.Duration) error {
	return fmt.Errorf("%w; if there are none, end the wait with redislock.Bless", &driver.ClosedError{Left: left})
}

func (s *store) usable(ctx context.Context, req *driver.Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return conn.Unavailable(errClosed)
	}
	if req == nil {
		return nil
	}
	if req.Lease == "" || strings.ContainsAny(req.Lease, " \n") {
		return fmt.Errorf("redislock: lease id %q: use letters and digits", driver.Shorten(req.Lease))
	}
	if err := s.layout.Check(req.Name); err != nil {
		return fmt.Errorf("redislock: %w", err)
	}
	return s.checkTTL(req.TTL)
}

func (s *store) checkTTL(ttl time.Duration) error {
	if err := s.limit.Check(ttl); err != nil {
		return fmt.Errorf("redislock: %w", err)
	}
	return nil
}

// attempt is one request on its way to a lease.
type attempt struct {
	s      *store
	req    *driver.Request
	key    string
	keys   [5]string // that acquire and release are given
	args   [9]string // of acquire
	kind   string
	record string
	place  string // in the queue, once there
	doubt  bool   // a request was sent and its answer did not come
	waiter waiter
}

func (s *store) attempt(req *driver.Request) *attempt {
	key := s.layout.Lock(req.Name)
	a := &attempt{s: s, req: req, key: key, keys: s.keysOf(key, req.Lease), kind: kindOf(req), record: s.records.Of(req, req.Keeps)}
	if req.Keeps {
		a.waiter.recall = new(recall)
	}
	return a
}

// keysOf returns the keys of the scripts that begin and end a lease: epoch, floor, ended, lock,
// queue. It makes one string for two of them. A grant does not keep them, as there may be
// many grants.
func (s *store) keysOf(key, lease string) [5]string {
	by := s.layout.Beside(key)
	all := by + queueSuffix + by + endedSuffix + lease
	queue := len(by) + len(queueSuffix)
	return [...]string{s.server.EpochKey(key), s.server.FloorKey(key), all[queue:], key, all[:queue]}
}

// turn is the store's answer when it does not grant.
type turn struct {
	value  string // of the lock; empty if it is free
	pttl   int64  // of the lock, in ms; negative if it has none
	rank   int64  // in the queue; negative if not there
	closed time.Duration

	sharers []driver.Held // co-holders; only filled in for TryAcquire
}

func (t turn) info(name string) *driver.Info {
	info := &driver.Info{Name: name, Holders: t.sharers}
	if t.value != "" {
		info.Holders = []driver.Held{parseHeld(t.value, t.pttl, time.Now())}
	}
	for _, h := range info.Holders {
		info.Token = max(info.Token, h.Token)
	}
	return info
}

// ask runs the script that grants, once, and joins the queue if wait is set.
func (a *attempt) ask(ctx context.Context, wait bool) (*grant, turn, *conn.Failure) {
	s := a.s
	var from conn.Session // before the request is sent
	if a.waiter.subscription != nil {
		from = a.waiter.subscription.Session()
	}
	if r := a.waiter.recall; r != nil {
		r.from = s.server.Listening(a.key)
	}
	a.args = [...]string{s.id, a.kind, a.record, epoch.Millis(a.req.TTL), claimMillis, s.server.ChannelFor(a.key), epoch.Bit(wait), a.place, a.req.Lease}
	reply, since, by, fail := s.server.RunReplicated(ctx, acquireScript, a.keys[:], a.args[:])
	if fail != nil {
		a.doubt = a.doubt || fail.Maybe
		return nil, turn{}, fail
	}
	if epoch.Code(reply) == ended {
		return nil, turn{}, &conn.Failure{Err: errEnded, Lasting: true}
	}
	if epoch.Code(reply) == otherSlots && len(reply) == 2 {
		n, _ := reply[1].AsInt64()
		return nil, turn{}, &conn.Failure{Err: &driver.SlotsError{Held: int(n), Wanted: a.req.Slots}, Maybe: a.doubt, Lasting: true}
	}
	if epoch.Code(reply) == 1 && len(reply) == 5 {
		token, err := reply[1].AsUint64()
		if err != nil {
			return nil, turn{}, &conn.Failure{Err: fmt.Errorf("%w: token: %w", driver.ErrUncertain, err), Maybe: true, Lasting: true}
		}
		g := a.granted(token, since)
		g.reserve(reply[2:])
		s.saw(by, since, reply)
		return g, turn{}, nil
	}
	if len(reply) != 8 {
		return nil, turn{}, &conn.Failure{Err: fmt.Errorf("%w: the server's answer has %d parts", driver.ErrUncertain, len(reply)), Maybe: true, Lasting: true}
	}
	var t turn
	t.value, _ = reply[1].ToString()
	t.pttl, _ = reply[2].AsInt64()
	t.rank, _ = reply[3].AsInt64()
	a.place, _ = reply[4].ToString()
	ms, _ := reply[5].AsInt64()
	t.closed = time.Duration(ms) * time.Millisecond
	t.sharers = parseSharers(reply[6])
	if micros, err := reply[7].AsInt64(); err == nil {
		a.waiter.seen = look{storekit.Look{Sent: since, At: time.Duration(micros) * time.Microsecond}, by, from}
	}
	return nil, t, nil
}

// Codes that the scripts that grant return besides 1 and 0.
const (
	closedNow  = -2
	ended      = -3
	otherSlots = -4
)

var errEnded = fmt.Errorf("%w: somebody has ended the lease before this client knew that it was granted", driver.ErrUncertain)

// granted makes the grant and, in the same step, ends the waiting for it, so that a
// message about this lease finds either the waiter or the grant.
func (a *attempt) granted(token uint64, since driver.Instant) *grant {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return a.begin(token, since, storekit.Term{Sent: since, Heard: driver.Now(), TTL: a.req.TTL})
}

// begin is granted with store.mu held.
func (a *attempt) begin(token uint64, since driver.Instant, t storekit.Term) *grant {
	g := &grant{s: a.s, key: a.key, lease: a.req.Lease, kind: a.kind, record: a.record, token: token, since: since, doubt: a.doubt, term: t}
	a.passRecall(g)
	delete(a.s.waiters, g.lease)
	a.s.grants[g.lease] = g
	return g
}

// undo returns the error of a failed attempt and, if that may have been executed,
// a grant whose release undoes it. A lease that too few replicas have is given
// back at once.
func (a *attempt) undo(ctx context.Context, fail *conn.Failure) (driver.Grant, error) {
	if !fail.Maybe {
		return nil, fail.Err
	}
	g := &grant{s: a.s, key: a.key, lease: a.req.Lease, kind: a.kind, record: a.record, doubt: a.doubt, unsure: true}
	if fail.Behind != nil && g.Release(ctx) == nil {
		return nil, conn.Unavailable(fail.Behind)
	}
	return g, fail.Err
}

// Close implements driver.Driver.
func (s *store) Close() error {
	if s.ctx.Err() != nil {
		return nil
	}
	s.server.Hush()
	s.mu.Lock() // no work begins after this, beside Wait
	s.cancel()
	s.mu.Unlock()
	s.server.Close()
	s.work.Wait()
	return nil
}
