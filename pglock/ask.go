// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// claimMicros is the time that a waiter has after a hand-off to confirm the lease, in microseconds.
var claimMicros = num(time.Second.Microseconds())

// pollGone is how long a waiter without messages may go without a look before the server drops it.
const pollGone = 2 * time.Second

// How a request waits.
const (
	noWait = "0"
	hears  = "1"
	looks  = "2"
)

// Codes that the functions return. 1 is yes and 0 is no.
const (
	otherRun      = -1
	tombstone     = -3
	otherSlots    = -4
	tooLong       = -5
	notReplicated = -6
	guarded       = -7
	gone          = -8

	keptLonger = 2 // the lease has more time left than the renewal asks for
)

// listening is the Session of answers and events: a connection that listens, and the timeline of the data.
type listening struct {
	session  *pgconn.PgConn
	timeline int
}

// asking is a request for a lease.
type asking struct {
	*driver.Request
	record string
	wait   string
	handle *handle
}

// handle is the Handle of a lease.
type handle struct {
	place int64                   // in the queue; 0 until it is known. A waiter that was passed over returns to it
	last  atomic.Pointer[renewal] // the last answer to a renewal
}

// Ask implements driver.Store.
func (s *store) Ask(ctx context.Context, r *driver.Request) (ans driver.Answer, err error) {
	h, again := r.Handle.(*handle)
	if !again {
		h = new(handle)
	}
	session, deaf := s.listener.state() // must be read before the request is sent
	// A client behind a pooler would not learn that others want a kept lease, so it keeps none.
	q := &asking{r, s.records.Of(r, r.Keeps && !errors.Is(deaf, errPooled)), noWait, h}
	switch {
	case r.Queue && session != nil:
		q.wait = hears
	case r.Queue && driver.FailureOf(deaf).Lasting: // else the waiter would poll for ever
		return ans, deaf
	case r.Queue:
		q.wait = looks
	}
	var a reply
	switch {
	case r.Instead != "":
		a, err = s.downgrade(ctx, q)
	case kindOf(r.Shared, r.Slots) == 0 && !again: // a repeated request rarely finds the name free
		a, err = s.takes.Do(ctx, q)
	default:
		a, err = s.acquire(ctx, q)
	}
	if err != nil {
		return ans, err
	}
	ans.Handle = h
	if session != nil {
		ans.Session = listening{session, s.now().timeline}
	}
	return ans, s.read(&ans, a, q)
}

// read fills in an answer from a row.
func (s *store) read(ans *driver.Answer, a reply, q *asking) error {
	row := a.row
	ans.Since, ans.Clock = a.sent, s.clock(a.sent, row[4])
	refuse := func(err error) error { return &driver.Failure{Err: err, Lasting: true} }
	switch integer(row[0]) {
	case 1:
		ans.Granted, ans.Token, ans.Spare, ans.Waited = true, uint64(long(row[1])), uint64(long(row[2])), yes(row[3])
		s.beginToListen() // the client has to learn if another client ends the lease
		return nil
	case tombstone:
		return &driver.Failure{Err: errEnded, Lasting: true, Ended: true}
	case otherSlots:
		return refuse(&driver.SlotsError{Held: integer(row[1]), Wanted: q.Slots})
	case tooLong:
		return refuse(s.limit.tooLong(q.TTL, micros(row[1])))
	case guarded:
		return &driver.Failure{Err: errGuarded}
	case gone:
		return refuse(storekit.HowLost(string(row[8])))
	}
	ans.Free, ans.Closed = micros(row[5])+time.Millisecond, micros(row[7])
	if ans.Rank = integer(row[6]); ans.Rank < 0 {
		ans.Rank = 1 // the lease is not in the queue
	}
	ans.Holders, q.handle.place = readHolders(row[8]), cmp.Or(long(row[9]), q.handle.place)
	return nil
}

var (
	errEnded   = fmt.Errorf("%w: somebody has ended the lease before this client knew that it was granted", driver.ErrUncertain)
	errGuarded = errors.New("a transaction guards the lease: end it first")
)

func (s *store) acquire(ctx context.Context, q *asking) (reply, error) {
	return s.bound(ctx, requestTimeout, "acquire", q.Name, q.Lease, s.id, num(int64(kindOf(q.Shared, q.Slots))), q.record,
		num(q.TTL.Microseconds()), claimMicros, q.wait, num(pollGone.Microseconds()), num(q.handle.place))
}

func (s *store) downgrade(ctx context.Context, q *asking) (reply, error) {
	return s.bound(ctx, requestTimeout, "downgrade", q.Name, q.Instead, q.Lease, s.id, q.record, num(q.TTL.Microseconds()), claimMicros)
}

// ending is the end of a lease.
type ending struct {
	driver.Ref
	how driver.End
}

// End implements driver.Store. With Unsure or Doubt it leaves a tombstone, which makes later requests for the
// lease fail.
func (s *store) End(ctx context.Context, l driver.Ref, how driver.End) (found bool, err error) {
	send := s.release
	if kindOf(l.Shared, l.Slots) == 0 && how == (driver.End{}) {
		send = s.releases.Do
	}
	a, err := send(ctx, ending{l, how})
	return err == nil && integer(a.row[0]) == 1, err
}

func (s *store) release(ctx context.Context, q ending) (reply, error) {
	return s.call(ctx, "release", q.Name, q.Lease, claimMicros, boolean(q.how.Unsure), boolean(q.how.Doubt))
}

// kindOf returns the kind of a lease as the schema encodes it.
func kindOf(isShared bool, slots int) int {
	if isShared {
		return shared
	}
	return slots
}

const shared = -1

// clock returns the server's clock as read in an answer.
func (s *store) clock(sent driver.Instant, at []byte) driver.Clock {
	return driver.Clock{Server: s.where, Sent: sent, At: micros(at)}
}
