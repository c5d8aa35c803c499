// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// settle is how long a request waits before it fails if a hash slot is moving, or if
// the nodes do not agree which of them has it. Redis refuses scripts with several keys
// while it moves a slot key by key.
const settle = 2 * time.Second

// trip is one request on its way to the node that has its slot.
type trip struct {
	c    *Cluster
	slot int
	ask  string // where to ask next with ASKING; empty for the owner

	hops  int            // how often it was sent elsewhere, or told to try again
	began driver.Instant // when for the first time

	stale     *epoch.Binding // that is of no use any more
	forgot    int            // how often there was one, or no record of the epoch
	elsewhere bool           // the connection has led to no master, or to another run
	fail      *conn.Failure  // why the last attempt was not the last one
}

func (c *Cluster) trip(key string) trip {
	return trip{c: c, slot: c.slot(key)}
}

// next returns the node to ask, and whether to ask it with ASKING because it does not
// have the slot yet.
func (t *trip) next(ctx context.Context) (s *epoch.Server, asking bool, err error) {
	if t.ask == "" {
		s, err = t.c.owner(ctx, t.slot)
		return s, false, err
	}
	t.c.mu.Lock()
	n := t.c.at(t.ask)
	t.c.mu.Unlock()
	t.ask = ""
	s, err = t.c.connect(ctx, n)
	return s, true, err
}

// again reports whether the request should be sent again after err, to the node that
// next returns. It waits if that must not happen at once.
func (t *trip) again(ctx context.Context, s *epoch.Server, err error) bool {
	if t.c.one != nil {
		return false
	}
	ret := conn.Refused(err)
	if ret == nil {
		t.c.suspect(s)
		return false
	}
	moved, isMoved := ret.IsMoved()
	ask, isAsk := ret.IsAsk()
	switch {
	case isMoved:
		t.c.assign(t.slot, announced(moved, s.Addr))
	case isAsk:
		t.ask = announced(ask, s.Addr)
	case ret.IsTryAgain():
	default:
		if ret.IsClusterDown() || conn.IsReplica(ret) {
			t.c.suspect(s)
		}
		return false
	}
	if t.hops++; t.hops == 1 {
		t.began = driver.Now()
	}
	if driver.Now().Sub(t.began) > settle {
		return false
	}
	if !isAsk && (ret.IsTryAgain() || t.hops > 3) {
		select {
		case <-time.After(min(time.Duration(t.hops)*5*time.Millisecond, 100*time.Millisecond)):
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// Run runs a script at the server that has its first key. It returns the reply, whose first element is a
// number, the instant before the script was sent, and the run that has answered. Missing scripts are loaded,
// and a missing epoch is begun, on the way. With a Failure the reply must not be trusted.
//
// After a script has granted or renewed a lease, Run waits until Config.Replicas replicas have that. It fails with
// conn.Behind if they do not confirm within Config.ReplicaTimeout.
//
// In a cluster a script with more than one key does not run while their hash slot moves from one node to
// another: some of the keys may be here and some there, and it would fail half-way.
func (c *Cluster) Run(ctx context.Context, script int, keys, args []string) (reply []rueidis.RedisMessage, since driver.Instant, by epoch.Source, fail *conn.Failure) {
	if c.Before != nil {
		c.Before(script)
	}
	t := c.trip(keys[0])
	if c.one == nil && len(keys) > 1 {
		keys = append(keys[:len(keys):len(keys)], noKey(c.epochKey(t.slot)))
	}
	for t.forgot < 5 {
		reply, since, by, fail = t.try(ctx, script, keys, args)
		if reply != nil || fail != nil {
			return reply, since, by, fail
		}
	}
	return nil, 0, epoch.Source{}, t.fail
}

// try makes one attempt. If it returns neither a reply nor a Failure another one may help.
func (t *trip) try(ctx context.Context, script int, keys, args []string) (reply []rueidis.RedisMessage, since driver.Instant, by epoch.Source, fail *conn.Failure) {
	s, asking, err := t.next(ctx)
	if err != nil {
		return nil, 0, by, conn.NotBound(ctx, err)
	}
	b, err := s.Bound(ctx, t.stale)
	if err != nil {
		if t.again(ctx, s, err) {
			return nil, 0, by, nil
		}
		return nil, 0, by, conn.NotBound(ctx, err)
	}
	if again, err := s.Grants(b, script); err != nil {
		return nil, 0, by, &conn.Failure{Err: err, Lasting: true}
	} else if again {
		t.anew(s, b, asking, epoch.Forgets())
		return nil, 0, by, nil
	}
	made, since := s.Made(), driver.Now()
	if reply, err = t.c.call(ctx, s, b, t.slot, asking, script, keys, args); err != nil {
		return nil, 0, by, t.refused(ctx, s, b, asking, made, err)
	}
	switch {
	case len(reply) == 0 || epoch.Code(reply) == epoch.NoEpoch:
	case epoch.Code(reply) == epoch.BeyondLimit:
		return nil, 0, by, s.Beyond(b, reply)
	default:
		fail = s.Heard(b, reply)
		if fail == nil && s.Scripts[script].Leases() && epoch.Code(reply) == 1 {
			fail = s.Replicated(ctx, b, t.c.epochKey(t.slot))
		}
		if fail == nil && !asking {
			fail = t.c.left(s, t.slot)
		}
		return reply, since, epoch.Source{Server: s, Binding: b}, fail
	}
	return nil, 0, by, t.unrecorded(s, b)
}

// unrecorded makes the next attempt record the epoch anew. The record is gone, is of another run, or has another MaxTTL;
// see Grants.
func (t *trip) unrecorded(s *epoch.Server, b *epoch.Binding) *conn.Failure {
	if fail := s.Differs(b); fail != nil {
		return fail
	}
	if t.c.one != nil {
		t.stale = b
	} else {
		b.Joined.Remove(t.slot)
	}
	t.forgot, t.fail = t.forgot+1, epoch.Forgets()
	return nil
}

// anew makes the next attempt with another Binding than b.
func (t *trip) anew(s *epoch.Server, b *epoch.Binding, asking bool, why *conn.Failure) {
	t.stale, t.fail = b, why
	t.forgot++
	if asking {
		t.ask = s.Addr
	}
}

// refused returns why a request has failed, or nil if another attempt may help.
func (t *trip) refused(ctx context.Context, s *epoch.Server, b *epoch.Binding, asking bool, made int64, err error) *conn.Failure {
	ret := conn.Refused(err)
	switch first := t.stale == nil && !t.elsewhere; {
	case t.c.one != nil:
		if fail := s.Elsewhere(ctx, first, made, err); fail != nil {
			if t.anew(s, b, false, fail); !first { // b is for a master: there is no Binding to a replica
				t.stale = nil
			}
			t.elsewhere = true
			return nil
		}
	case ret != nil && ret.IsNoScript():
		t.anew(s, b, asking, epoch.Forgets())
		return nil
	case t.again(ctx, s, err):
		return nil
	}
	fail := conn.Classify(ctx, err)
	fail.Passing = ret != nil && ret.IsTryAgain()
	return fail
}

// left returns why a reply from a node must not be trusted, or nil: the slot has moved
// to another node while the reply was on its way. A node that hung and has been
// replaced executes requests that were sent to it before it learns that.
func (c *Cluster) left(s *epoch.Server, slot int) *conn.Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.owners[slot]; n == nil || n.now() == s {
		return nil
	}
	return &conn.Failure{Err: fmt.Errorf("%w: the answer is from a node that had the hash slot before", driver.ErrUncertain), Maybe: true}
}

// noKey is a key that never exists. A node that moves or receives a slot refuses a
// script that has it among its keys, with TRYAGAIN, wherever the other keys are.
func noKey(key string) string { return key + ":none" }

// call runs a script, at one server together with others perhaps. With the first one in a slot of a cluster, the slot's
// epoch is joined.
func (c *Cluster) call(ctx context.Context, s *epoch.Server, b *epoch.Binding, slot int, asking bool, script int, keys, args []string) ([]rueidis.RedisMessage, error) {
	if c.one != nil {
		return s.Ask(ctx, b, script, keys, args)
	}
	run := b.Call(s.Client, script, keys, args)
	joined := !b.Guarded() || b.Joined.Has(slot)
	if joined && !asking {
		return s.Reply(script, s.Do(ctx, run))
	}
	first := s.Client.B().Asking().Build()
	if !asking {
		first = c.tell(s, b, s.Client, slot, s.TellingArgs(s.Mode()))
	}
	replies, err := s.DoMulti(ctx, first, run)
	if err != nil {
		return nil, err
	}
	reply, err := s.Reply(script, replies[1])
	if asking {
		return reply, err
	}
	fail := c.told(s, b, slot, replies[0])
	if err == nil && len(reply) > 0 && epoch.Code(reply) == epoch.NoEpoch && fail != nil {
		return nil, fail
	}
	return reply, err
}
