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

// call is one request for a lease, with all that is sent, in one allocation.
type call struct {
	s    *store
	req  *driver.Request
	key  string
	h    handle
	keys [5]string // of acquire
	args [9]string

	from conn.Session // over which messages about the lock came before the request was sent
	main conn.Session // and those to this client about a lease that it may keep
}

// handle is what later requests for the lease repeat: the text under which it waits in the queue or shares the lock, and
// its place in the queue.
type handle struct{ kind, record, place string }

// session says how messages about a lock arrive: over one subscription, from its opening to its end, from one run of a
// server. Other servers may deliver these messages too, as replicas in a cluster do.
type session struct {
	at  conn.Session
	run string
}

// Codes that the scripts that grant return besides 1 and 0.
const (
	closedNow  = -2
	ended      = -3
	otherSlots = -4
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
	// Too few replicas have the lease. A waiter asks again; a caller that does not wait gives it back at once.
	if behind := new(conn.Behind); errors.As(fail.Err, &behind) && (!req.Queue || fail.Lasting) {
		if _, err := s.End(ctx, c.ref(), driver.End{Unsure: true}); err == nil {
			fail = &driver.Failure{Err: conn.Unavailable(behind), Lasting: fail.Lasting}
		}
	}
	return driver.Answer{Handle: c.handle()}, fail
}

// handle returns a copy, as the call is larger.
func (c *call) handle() *handle {
	h := c.h
	return &h
}

func (c *call) ref() driver.Ref {
	return driver.Ref{Name: c.req.Name, Lease: c.req.Lease, Shared: c.req.Shared, Slots: c.req.Slots, Handle: c.handle()}
}

// listening notes the sessions before the request is sent. It returns a failure if the server refuses a subscription for
// good: a waiter would hear nothing.
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

// answer reads what acquire has returned.
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

// granted completes the answer that grants the lock. An exclusive lease needs no handle.
func (c *call) granted(ans driver.Answer, token rueidis.RedisMessage) (driver.Answer, error) {
	if c.h.kind != exclusive {
		ans.Handle = c.handle()
	}
	var err error
	if ans.Token, err = token.AsUint64(); err != nil {
		return driver.Answer{Handle: c.handle()}, garbled(fmt.Errorf("token: %w", err))
	}
	if c.main != (conn.Session{}) && c.main == c.s.server.Listening(c.key) {
		ans.Session = c.main // what others want is heard
	}
	ans.Granted = true
	return ans, nil
}

// refused completes the answer that does not grant it: {0, value, pttl, rank, place, closed, sharers, time}.
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

// untilFree returns when a lock ends if nobody renews it, by the PTTL of its key; negative if it has no end.
// The key still exists in its last millisecond.
func untilFree(pttl int64) time.Duration {
	switch pttl {
	case noEnd:
		return -1
	case noKey:
		return 0
	}
	return time.Duration(pttl+1) * time.Millisecond
}

// What PTTL says.
const (
	noEnd = -1 // of a key without a TTL: another library's
	noKey = -2 // if there is none
)

func garbled(err error) *driver.Failure {
	return &driver.Failure{Err: fmt.Errorf("%w: %w", driver.ErrUncertain, err), Maybe: true, Lasting: true}
}

// clockOf reads the server's time, with which a reply ends.
func clockOf(by epoch.Source, sent driver.Instant, reply []rueidis.RedisMessage) driver.Clock {
	micros, err := reply[len(reply)-1].AsInt64()
	if err != nil {
		return driver.Clock{}
	}
	return driver.Clock{Server: by.Addr, Sent: sent, At: time.Duration(micros) * time.Microsecond}
}

// replace asks for a shared lease in the place of an exclusive one.
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
