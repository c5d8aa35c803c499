// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// claimTTL is how long a name that was handed to a waiter stays its own until it asks
// for more.
const claimTTL = time.Second

var claimMicros = num(claimTTL.Microseconds())

// store is one participant.
type store struct {
	id     string // of this participant; names its channel
	where  string // for people
	schema string
	sql    statements
	mode   Mode
	limit  *limit
	pool   *pool
	ear    ear
	clock  storekit.ServerTime
	soon   renewals
	takes  batch // requests for free names
	gives  batch // releases
	known  atomic.Pointer[known]

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	binding sync.Mutex     // bind runs once at a time
	boundAt driver.Instant // when it was sent last; guarded by binding

	mu      sync.Mutex // guards the fields below
	run     run
	waiters map[string]*waiter // by lease
	grants  map[string]*grant  // by lease
	news    news
}

var (
	_ driver.Queuer    = (*store)(nil)
	_ driver.Inspector = (*store)(nil)
	_ driver.Reporter  = (*store)(nil)
	_ driver.Describer = (*store)(nil)
	_ driver.Sets      = (*store)(nil)
)

// Guarantees implements driver.Driver.
func (s *store) Guarantees() driver.Guarantees {
	return driver.Guarantees{
		Fencing: true, FIFO: true, CrossHost: true, Expiry: true, SurvivesRestart: s.mode != Async,
		Shared: true, Slots: true,
	}
}

// exec sends one statement, and again if the server has rolled it back because of another
// transaction. sent is before it was sent.
func (s *store) exec(ctx context.Context, sql string, args ...any) (rows [][][]byte, sent driver.Instant, f *failure) {
	const most = 10
	for i := range most {
		rows, sent, f = s.once(ctx, sql, args)
		if f == nil || !f.repeat || i == most-1 {
			return rows, sent, f
		}
		select {
		case <-time.After(rand.N(time.Duration(i+1) * 5 * time.Millisecond)):
		case <-ctx.Done():
		}
	}
	return rows, sent, f
}

// once has a goroutine do it. A caller whose context ends goes: the connection waits for
// the answer, as it would have to be made anew. What has not been sent by then is not
// sent any more.
func (s *store) once(ctx context.Context, sql string, args []any) (rows [][][]byte, sent driver.Instant, f *failure) {
	if err := ctx.Err(); err != nil {
		return nil, 0, &failure{err: err}
	}
	texts := make([]*string, len(args))
	for i, a := range args {
		if t, ok := a.(string); ok {
			texts[i] = &t
		}
	}
	qctx, cancel := context.WithTimeout(s.ctx, requestTimeout)
	q := &question{sql: sql, args: texts, done: make(chan struct{})}
	go func() { defer cancel(); s.ask(qctx, q) }()
	select {
	case <-q.done:
		return q.rows, q.sent, q.fail
	case <-ctx.Done():
		time.AfterFunc(lateAnswer, cancel) // the connection may be dead
		return nil, 0, &failure{err: ctx.Err(), maybe: !q.state.CompareAndSwap(waiting, dropped)}
	}
}

// lateAnswer is for how long a connection may wait for an answer that nobody wants.
const lateAnswer = 500 * time.Millisecond

// question is one statement on its way.
type question struct {
	sql   string
	args  []*string
	state atomic.Int32 // waiting for a connection, sending, or dropped
	done  chan struct{}

	// Set before done is closed.
	rows [][][]byte
	sent driver.Instant
	fail *failure
}

const (
	waiting = iota
	sending
	dropped
)

// ask sends a question, unless it is dropped before, and waits for the answer.
func (s *store) ask(ctx context.Context, q *question) {
	defer close(q.done)
	c, f := s.pool.get(ctx)
	if f != nil {
		if s.ctx.Err() == nil && ctx.Err() != nil {
			f = &failure{err: unavailable(s.explain(ctx.Err())), silent: true}
		}
		q.fail = s.ended(f)
		return
	}
	if !q.state.CompareAndSwap(waiting, sending) {
		s.pool.put(c, true)
		return
	}
	var err error
	if q.rows, q.sent, err = c.exec(ctx, q.sql, q.args); err != nil {
		q.fail = s.ended(s.classify(s.ctx, err))
	}
	s.pool.put(c, !c.IsClosed())
	if q.fail != nil && q.fail.drop {
		s.pool.drop()
	}
}

// ended turns a failure of a closed store into that.
func (s *store) ended(f *failure) *failure {
	if s.ctx.Err() != nil && !f.lasting {
		return &failure{err: unavailable(errClosed), lasting: true, maybe: f.maybe}
	}
	return f
}

// call is exec for a function, which returns one row.
func (s *store) call(ctx context.Context, sql string, args ...any) (row [][]byte, sent driver.Instant, f *failure) {
	rows, sent, f := s.exec(ctx, sql, args...)
	if f != nil {
		return nil, 0, f
	}
	if len(rows) != 1 {
		return nil, 0, s.strange(rows)
	}
	return rows[0], sent, nil
}

// strange is the failure of an answer with another number of rows than was asked for.
func (s *store) strange(rows [][][]byte) *failure {
	return &failure{err: uncertain(fmt.Errorf("%s: the answer has %d rows", s.where, len(rows))), maybe: true, lasting: true}
}

// bound is call for a function that grants or renews, with the timeline as its first
// argument. If the server is in another run than the store is bound to, it binds the
// store, and calls again.
func (s *store) bound(ctx context.Context, sql string, args ...any) (row [][]byte, sent driver.Instant, f *failure) {
	rows, sent, f := s.boundRows(ctx, sql, args...)
	if f != nil {
		return nil, 0, f
	}
	return rows[0], sent, nil
}

// boundRows is bound for a function that returns several rows. There is at least one.
func (s *store) boundRows(ctx context.Context, sql string, args ...any) (rows [][][]byte, sent driver.Instant, f *failure) {
	const most = 3
	all := append([]any{""}, args...)
	for range most {
		all[0] = num(int64(s.now().timeline))
		if rows, sent, f = s.exec(ctx, sql, all...); f == nil && len(rows) == 0 {
			f = s.strange(rows)
		}
		if f != nil {
			return nil, 0, f
		}
		switch integer(rows[0][0]) {
		case otherRun:
			if f := s.bind(ctx, sent); f != nil {
				return nil, 0, f
			}
			continue
		case notReplicated:
			return nil, 0, s.wrong("the store's mode is synchronous, but the server does not wait for a replica: set synchronous_standby_names, and synchronous_commit to on")
		}
		return rows, sent, nil
	}
	return nil, 0, &failure{err: unavailable(fmt.Errorf("%s: the server is in another run each time", s.where))}
}

// Codes that functions return besides 1 and 0.
const (
	otherRun      = -1
	closedNow     = -2
	tombstone     = -3
	otherSlots    = -4
	tooLong       = -5
	notReplicated = -6
	notAtOnce     = -7
)

var errEnded = fmt.Errorf("%w: somebody has ended the lease before this client knew that it was granted", driver.ErrUncertain)

func (s *store) usable(ctx context.Context, req *driver.Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return unavailable(errClosed)
	}
	if req == nil {
		return nil
	}
	return s.checkTTL(req.TTL)
}

func (s *store) checkTTL(ttl time.Duration) error {
	if err := s.limit.check(ttl); err != nil {
		return fmt.Errorf("pglock: %w", err)
	}
	return nil
}

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
	return fmt.Errorf("%w; if there are none, end the wait with pglock.Bless", &driver.ClosedError{Left: left, MaxTTL: t.ttl, SetBy: t.holder()})
}

// attempt is one request on its way to a lease.
type attempt struct {
	s      *store
	req    *driver.Request
	kind   int
	record string
	doubt  bool // a request was sent and its answer did not come
	asked  bool // once
	waiter waiter
}

func (s *store) attempt(req *driver.Request) *attempt {
	a := &attempt{s: s, req: req, kind: kindOf(req), record: s.newRecord(req)}
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
			num(a.req.TTL.Microseconds()), claimMicros, num(int64(wait)), num(pollGone.Microseconds()))
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
	if len(row[8]) > 0 {
		t.holders = readHolders(row[8])
	}
	a.waiter.seen = look{from, sent, at}
	return nil, t, nil
}

// granted makes the grant and, in the same step, ends the waiting for it, so that a
// message about this lease finds either the waiter or the grant.
func (a *attempt) granted(token uint64, since driver.Instant) *grant {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return a.begin(token, since, period{since, driver.Now(), a.req.TTL})
}

// begin is granted with store.mu held.
func (a *attempt) begin(token uint64, since driver.Instant, p period) *grant {
	g := &grant{s: a.s, name: a.req.Name, lease: a.req.Lease, kind: a.kind, token: token, since: since, doubt: a.doubt, period: p}
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

// Close implements driver.Driver.
func (s *store) Close() error {
	if s.ctx.Err() != nil {
		return nil
	}
	s.mu.Lock() // no work begins after this, beside Wait
	s.cancel()
	s.mu.Unlock()
	s.ear.close()
	s.pool.close()
	s.work.Wait()
	return nil
}

// kindOf returns the kind of lease as it is in the store.
func kindOf(req *driver.Request) int {
	if req.Shared {
		return shared
	}
	return req.Slots
}

const shared = -1

// known is the last record that was made: those of one client are the same unless a
// lease has a Why, or its caller holds others.
type known struct {
	holder *driver.Holder
	why    string
	keeps  bool
	text   string
}

// record describes a holder or waiter for people.
type record struct {
	driver.Holder
	Why   string        `json:"why,omitempty"`
	Holds []driver.Hold `json:"holds,omitempty"` // while it waits
	Keeps bool          `json:"keeps,omitempty"` // see Recalls; functions look for it in the text
}

func (s *store) newRecord(req *driver.Request) string {
	keeps := req.Keeps && !s.ear.deaf() // else others would ask in vain
	if req.Holds != nil {
		return record{*req.Holder, req.Why, req.Holds, keeps}.text()
	}
	k := s.known.Load()
	if k == nil || k.holder != req.Holder || k.why != req.Why || k.keeps != keeps {
		k = &known{req.Holder, req.Why, keeps, record{*req.Holder, req.Why, nil, keeps}.text()}
		s.known.Store(k)
	}
	return k.text
}

func (r record) text() string {
	b, err := json.Marshal(r)
	if err != nil {
		return "{}" // cannot happen: strings and an int
	}
	return string(b)
}

func readRecord(s string) (r record) {
	_ = json.Unmarshal([]byte(s), &r) // an unreadable record is shown as empty
	return r
}

func num(n int64) string { return strconv.FormatInt(n, 10) }

func boolean(b bool) string { return strconv.FormatBool(b) }

func long(b []byte) int64 {
	n, _ := strconv.ParseInt(string(b), 10, 64) // NULL is 0
	return n
}

func integer(b []byte) int { return int(long(b)) }

var errGuarded = errors.New("a transaction guards the lease: end it first")
