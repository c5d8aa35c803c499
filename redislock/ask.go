// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// call is one request for a lease. It holds the keys and arguments of the script too, so that a request needs one
// allocation.
type call struct {
	s    *store
	req  *driver.Request
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
	ended      = -3 // there is a tombstone for the lease
	otherSlots = -4 // the holders have agreed on another number of slots
)

var errEnded = fmt.Errorf("%w: somebody has ended the lease before this client knew that it was granted", driver.ErrUncertain)

// Ask implements driver.Store.
func (s *store) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	if fail := s.check(req); fail != nil {
		return driver.Answer{}, fail
	}
	c := &call{s: s, req: req, key: s.layout.Lock(req.Name)}
	if h, again := req.Handle.(*handle); again {
		c.h = *h
	} else {
		c.h = handle{kind: kindOf(req.Shared, req.Slots), record: s.records.Of(req, req.Keeps)}
	}
	c.keys = s.keysOf(c.key, req.Lease)
	if req.Instead != "" {
		return c.replace(ctx)
	}
	if fail := c.listening(ctx); fail != nil {
		return driver.Answer{Handle: c.handle()}, fail
	}
	c.args = [...]string{s.id, c.h.kind, c.h.record, epoch.Millis(req.TTL), claimMillis, s.server.ChannelFor(c.key), epoch.Bit(req.Queue), c.h.place, req.Lease}
	reply, since, by, fail := s.server.Run(ctx, acquireScript, c.keys[:], c.args[:])
	if fail == nil {
		return c.answer(reply, since, by)
	}
	// The server has granted the lease, but too few replicas have it. A waiter asks again. A caller that does not wait
	// gives the lease back at once, and so does a waiter if the failure is lasting.
	if behind := new(conn.Behind); errors.As(fail.Err, &behind) && (!req.Queue || fail.Lasting) {
		l := driver.Ref{Name: req.Name, Lease: req.Lease, Shared: req.Shared, Slots: req.Slots, Handle: c.handle()}
		if _, err := s.End(ctx, l, driver.End{Unsure: true}); err == nil {
			fail = &driver.Failure{Err: conn.Unavailable(behind), Lasting: fail.Lasting}
		}
	}
	return driver.Answer{Handle: c.handle()}, fail
}

// handle returns a copy, so that the Answer does not keep the whole call in memory.
func (c *call) handle() *handle {
	h := c.h
	return &h
}

// listening records the sessions before the request is sent. It returns a failure if the server refuses a waiter's
// subscription for good, since the waiter would hear nothing.
func (c *call) listening(ctx context.Context) *driver.Failure {
	if c.req.Keeps {
		c.main = c.s.server.Listening(c.key)
	}
	if !c.req.Queue {
		return nil
	}
	var refused error
	if c.from, refused = c.s.server.Session(c.key); refused != nil {
		if fail := conn.NotBound(ctx, refused); fail.Lasting {
			return fail
		}
	}
	return nil
}

// answer reads the reply of acquire.lua.
func (c *call) answer(reply []rueidis.RedisMessage, since driver.Instant, by epoch.Source) (driver.Answer, error) {
	ans := driver.Answer{Since: since, Clock: clockOf(by, since, reply)}
	switch code := epoch.Code(reply); {
	case code == ended:
		return driver.Answer{Handle: c.handle()}, &driver.Failure{Err: errEnded, Lasting: true, Ended: true}
	case code == otherSlots && len(reply) == 2:
		n, _ := reply[1].AsInt64()
		return driver.Answer{Handle: c.handle()}, &driver.Failure{Err: &driver.SlotsError{Held: int(n), Wanted: c.req.Slots}, Lasting: true}
	case code == 1 && len(reply) == 5:
		spare, _ := reply[2].AsInt64()
		waits, _ := reply[3].AsInt64()
		ans.Spare, ans.Waited = uint64(max(spare, 0)), waits != 0
		return c.granted(ans, reply[1])
	case code != 0 || len(reply) != 8:
		return driver.Answer{Handle: c.handle()}, garbled(fmt.Errorf("the server's answer has %d parts", len(reply)))
	}
	c.refused(&ans, reply)
	if c.from != (conn.Session{}) && c.from.By == by.Conn {
		ans.Session = session{c.from, by.Run()}
	}
	return ans, nil
}

// granted completes an answer that grants the lock. An exclusive lease needs no handle.
func (c *call) granted(ans driver.Answer, token rueidis.RedisMessage) (driver.Answer, error) {
	if c.h.kind != exclusive {
		ans.Handle = c.handle()
	}
	var err error
	if ans.Token, err = token.AsUint64(); err != nil {
		return driver.Answer{Handle: c.handle()}, garbled(fmt.Errorf("token: %w", err))
	}
	if c.main != (conn.Session{}) && c.main == c.s.server.Listening(c.key) {
		ans.Session = c.main // the client can keep the lease, since it hears when others want it
	}
	ans.Granted = true
	return ans, nil
}

// refused completes an answer that does not grant the lock. The reply is {0, value, pttl, rank, place, closed,
// sharers, time}.
func (c *call) refused(ans *driver.Answer, reply []rueidis.RedisMessage) {
	value, _ := reply[1].ToString()
	pttl, _ := reply[2].AsInt64()
	rank, _ := reply[3].AsInt64()
	closed, _ := reply[5].AsInt64()
	ans.Closed, ans.Free = time.Duration(closed)*time.Millisecond, untilFree(pttl)
	if !c.req.Queue {
		ans.Holders, ans.Rank = holders(value, pttl, reply[6]), 1
		return
	}
	c.h.place, _ = reply[4].ToString()
	ans.Handle, ans.Rank = c.handle(), int(max(rank, 0))
	if c.s.layout.Pattern != "" && rank == 0 && foreign(value) {
		ans.Free = foreignLook/2 + rand.N(foreignLook)
		if free := untilFree(pttl); free >= 0 {
			ans.Free = min(ans.Free, free)
		}
	}
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
func clockOf(by epoch.Source, sent driver.Instant, reply []rueidis.RedisMessage) driver.Clock {
	micros, err := reply[len(reply)-1].AsInt64()
	if err != nil {
		return driver.Clock{}
	}
	return driver.Clock{Server: by.Addr, Sent: sent, At: time.Duration(micros) * time.Microsecond}
}

// replace turns an exclusive lease into a shared one, by downgrade.lua.
func (c *call) replace(ctx context.Context) (driver.Answer, error) {
	s, req := c.s, c.req
	reply, since, by, fail := s.server.Run(ctx, downgradeScript, c.keys[:],
		[]string{s.id, c.h.kind, c.h.record, epoch.Millis(req.TTL), claimMillis, s.server.ChannelFor(c.key), req.Lease, req.Instead, s.layout.Beside(c.key)})
	if fail != nil {
		return driver.Answer{Handle: c.handle()}, fail
	}
	switch code := epoch.Code(reply); {
	case code == 1 && len(reply) == 3:
		return c.granted(driver.Answer{Since: since, Clock: clockOf(by, since, reply)}, reply[1])
	case code == ended:
		return driver.Answer{Handle: c.handle()}, &driver.Failure{Err: errEnded, Lasting: true, Ended: true}
	case code == closedNow && len(reply) == 2:
		ms, _ := reply[1].AsInt64()
		return driver.Answer{Closed: time.Duration(ms) * time.Millisecond}, nil
	}
	news, _ := reply[len(reply)-1].ToString()
	return driver.Answer{}, &driver.Failure{Err: storekit.HowLost(news), Lasting: true}
}
