// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// leaseRequest is one request for a lease. It holds the keys and arguments of the script too, so that a request needs one
// allocation.
type leaseRequest struct {
	*driver.Request
	s    *store
	key  string
	h    handle
	keys [5]string // of acquire.lua
	args [9]string

	// The sessions at the time when the request was sent; zero if they are not needed, or there was none.
	from conn.Session // delivers messages to a waiter for this lock
	main conn.Session // delivers messages to this client, such as that others want a lease that it keeps
}

// handle is what later requests for the lease repeat. kind and record are parts of the attempt, the text that stands
// for the lease in the queue and in a shared lock; see attemptText. place is the score of the attempt in the queue.
type handle struct{ kind, record, place string }

// session is a conn.Session with the run of the server that sends the messages. Another server may deliver them, such
// as a replica in a cluster.
type session struct {
	at  conn.Session
	run string
}

// Codes that acquire.lua and downgrade.lua return, besides 1 (granted) and 0 (not granted).
const (
	closedNow  = -2 // the server is in quarantine
	tombstoned = -3 // there is a tombstone for the lease
	otherSlots = -4 // the holders have agreed on another number of slots
)

var errEnded = fmt.Errorf("%w: somebody has ended the lease before this client knew that it was granted", driver.ErrUncertain)

// Ask implements driver.Store.
func (s *store) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	if fail := s.check(req); fail != nil {
		return driver.Answer{}, fail
	}
	r := &leaseRequest{Request: req, s: s, key: s.layout.Lock(req.Name)}
	if h, again := req.Handle.(*handle); again {
		r.h = *h
	} else {
		r.h = handle{kind: kindOf(req.Shared, req.Slots), record: s.records.Of(req, req.Keeps)}
	}
	r.keys = s.keysOf(r.key, req.Lease)
	send := r.acquire
	if req.Instead != "" {
		send = r.downgrade
	}
	ans, fail := send(ctx)
	if fail != nil {
		return driver.Answer{Handle: r.handle()}, fail
	}
	return ans, nil
}

// acquire runs acquire.lua.
func (r *leaseRequest) acquire(ctx context.Context) (driver.Answer, *driver.Failure) {
	if fail := r.listening(ctx); fail != nil {
		return driver.Answer{}, fail
	}
	s := r.s
	r.args = [...]string{s.id, r.h.kind, r.h.record, epoch.Millis(r.TTL), claimMillis, s.server.ChannelFor(r.key), epoch.Bit(r.Queue), r.h.place, r.Lease}
	reply, fail := s.server.Run(ctx, acquireScript, r.keys[:], r.args[:])
	if fail == nil {
		return r.answer(reply)
	}
	// The server has granted the lease, but too few replicas have it. A waiter asks again. A caller that does not wait
	// gives the lease back at once, and so does a waiter if the failure is lasting.
	if behind := new(conn.Behind); errors.As(fail.Err, &behind) && (!r.Queue || fail.Lasting) {
		l := driver.Ref{Name: r.Name, Lease: r.Lease, Shared: r.Shared, Slots: r.Slots, Handle: r.handle()}
		if _, err := s.End(ctx, l, driver.End{Unsure: true}); err == nil {
			fail = &driver.Failure{Err: conn.Unavailable(behind), Lasting: fail.Lasting}
		}
	}
	return driver.Answer{}, fail
}

// handle returns a copy, so that the Answer does not keep the whole request in memory.
func (r *leaseRequest) handle() *handle {
	h := r.h
	return &h
}

// listening records the sessions before the request is sent. It returns a failure if the server refuses a waiter's
// subscription for good, since the waiter would hear nothing.
func (r *leaseRequest) listening(ctx context.Context) *driver.Failure {
	if r.Keeps {
		r.main = r.s.server.Listening(r.key)
	}
	if !r.Queue {
		return nil
	}
	var refused error
	if r.from, refused = r.s.server.Session(r.key); refused != nil {
		if fail := conn.NotBound(ctx, refused); fail.Lasting {
			return fail
		}
	}
	return nil
}

// answer reads the reply of acquire.lua.
func (r *leaseRequest) answer(reply epoch.Reply) (driver.Answer, *driver.Failure) {
	parts := reply.Parts
	switch code := reply.Code(); {
	case code == tombstoned:
		return driver.Answer{}, &driver.Failure{Err: errEnded, Lasting: true, Ended: true}
	case code == otherSlots && len(parts) == 2:
		n, _ := parts[1].AsInt64()
		return driver.Answer{}, &driver.Failure{Err: &driver.SlotsError{Held: int(n), Wanted: r.Slots}, Lasting: true}
	case code == 1 && len(parts) == 5:
		spare, _ := parts[2].AsInt64()
		waits, _ := parts[3].AsInt64()
		return r.granted(reply, uint64(max(spare, 0)), waits != 0)
	case code != 0 || len(parts) != 8:
		return driver.Answer{}, garbled(fmt.Errorf("the server's answer has %d parts", len(parts)))
	}
	return r.refused(reply), nil
}

// granted returns the answer for a reply whose second part is the token. An exclusive lease needs no handle.
func (r *leaseRequest) granted(reply epoch.Reply, spare uint64, waited bool) (driver.Answer, *driver.Failure) {
	token, err := reply.Parts[1].AsUint64()
	if err != nil {
		return driver.Answer{}, garbled(fmt.Errorf("token: %w", err))
	}
	ans := driver.Answer{Granted: true, Token: token, Spare: spare, Waited: waited, Since: reply.Since, Clock: clockOf(reply)}
	if r.h.kind != exclusive {
		ans.Handle = r.handle()
	}
	if r.main != (conn.Session{}) && r.main == r.s.server.Listening(r.key) {
		ans.Session = r.main // the client can keep the lease, since it hears when others want it
	}
	return ans, nil
}

// refused returns the answer for a reply that does not grant the lock: {0, value, pttl, rank, place, closed, sharers,
// time}.
func (r *leaseRequest) refused(reply epoch.Reply) driver.Answer {
	value, _ := reply.Parts[1].ToString()
	pttl, _ := reply.Parts[2].AsInt64()
	rank, _ := reply.Parts[3].AsInt64()
	closed, _ := reply.Parts[5].AsInt64()
	ans := driver.Answer{Since: reply.Since, Clock: clockOf(reply), Closed: time.Duration(closed) * time.Millisecond, Free: untilFree(pttl)}
	if !r.Queue {
		ans.Holders, ans.Rank = holders(value, pttl, reply.Parts[6]), 1
		return ans
	}
	r.h.place, _ = reply.Parts[4].ToString()
	ans.Handle, ans.Rank = r.handle(), int(max(rank, 0))
	if r.s.layout.Pattern != "" && rank == 0 && foreign(value) {
		ans.Free = foreignLook/2 + rand.N(foreignLook)
		if free := untilFree(pttl); free >= 0 {
			ans.Free = min(ans.Free, free)
		}
	}
	if r.from != (conn.Session{}) && r.from.By == reply.By.Conn {
		ans.Session = session{r.from, reply.RunID()}
	}
	return ans
}

// untilFree returns how long a lock lasts if nobody renews it, given the PTTL of its key. It is negative if the key has
// no TTL. It adds a millisecond, since PTTL is 0 in the last millisecond of a key.
func untilFree(pttl int64) time.Duration {
	switch pttl {
	case noEnd:
		return -1
	case noKey:
		return 0
	}
	return time.Duration(pttl+1) * time.Millisecond
}

// Results of PTTL.
const (
	noEnd = -1 // the key has no TTL: another library has written it
	noKey = -2 // the key does not exist
)

func garbled(err error) *driver.Failure {
	return &driver.Failure{Err: fmt.Errorf("%w: %w", driver.ErrUncertain, err), Maybe: true, Lasting: true}
}

// clockOf reads the server's time, which is the last element of a reply.
func clockOf(r epoch.Reply) driver.Clock {
	micros, err := r.Parts[len(r.Parts)-1].AsInt64()
	if err != nil {
		return driver.Clock{}
	}
	return driver.Clock{Server: r.By.Addr, Sent: r.Since, At: time.Duration(micros) * time.Microsecond}
}

// downgrade turns an exclusive lease into a shared one, by downgrade.lua.
func (r *leaseRequest) downgrade(ctx context.Context) (driver.Answer, *driver.Failure) {
	s := r.s
	reply, fail := s.server.Run(ctx, downgradeScript, r.keys[:],
		[]string{s.id, r.h.kind, r.h.record, epoch.Millis(r.TTL), claimMillis, s.server.ChannelFor(r.key), r.Lease, r.Instead, s.layout.Beside(r.key)})
	if fail != nil {
		return driver.Answer{}, fail
	}
	parts := reply.Parts
	switch code := reply.Code(); {
	case code == 1 && len(parts) == 3:
		return r.granted(reply, 0, false)
	case code == tombstoned:
		return driver.Answer{}, &driver.Failure{Err: errEnded, Lasting: true, Ended: true}
	case code == closedNow && len(parts) == 2:
		ms, _ := parts[1].AsInt64()
		return driver.Answer{Closed: time.Duration(ms) * time.Millisecond}, nil
	}
	news, _ := parts[len(parts)-1].ToString()
	return driver.Answer{}, &driver.Failure{Err: storekit.HowLost(news), Lasting: true}
}
