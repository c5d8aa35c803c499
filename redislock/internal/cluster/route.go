// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
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
	c     *Cluster
	slot  int
	ask   string         // where to ask next with ASKING; empty for the owner
	hops  int            // how often it was sent elsewhere, or told to try again
	began driver.Instant // when for the first time
}

func (c *Cluster) trip(key string) *trip {
	return &trip{c: c, slot: slotOf(key)}
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

// Run is as Server.Run. The script runs at the node that has its first key. A script
// with more than one key does not run while their hash slot moves from one node to
// another: some of the keys may be here and some there, and it would fail half-way.
func (c *Cluster) Run(ctx context.Context, script int, keys, args []string) ([]rueidis.RedisMessage, driver.Instant, *conn.Failure) {
	reply, since, _, fail := c.run(ctx, script, keys, args, false)
	return reply, since, fail
}

// RunReplicated is as Server.RunReplicated, with the replicas of that node.
func (c *Cluster) RunReplicated(ctx context.Context, script int, keys, args []string) (reply []rueidis.RedisMessage, since driver.Instant, by epoch.Source, fail *conn.Failure) {
	return c.run(ctx, script, keys, args, true)
}

func (c *Cluster) run(ctx context.Context, script int, keys, args []string, replicated bool) (reply []rueidis.RedisMessage, since driver.Instant, by epoch.Source, fail *conn.Failure) {
	t := c.trip(keys[0])
	if len(keys) > 1 {
		keys = append(keys[:len(keys):len(keys)], noKey(c.epochKey(t.slot)))
	}
	var stale *epoch.Binding
	for forgot := 0; forgot < 5; {
		s, asking, err := t.next(ctx)
		if err != nil {
			return nil, 0, epoch.Source{}, conn.NotBound(ctx, err)
		}
		b, err := s.Bound(ctx, stale)
		if err != nil {
			if t.again(ctx, s, err) {
				continue
			}
			return nil, 0, epoch.Source{}, conn.NotBound(ctx, err)
		}
		if again, err := s.Grants(b, script); err != nil {
			return nil, 0, epoch.Source{}, &conn.Failure{Err: err, Lasting: true}
		} else if again {
			stale = b
			if asking {
				t.ask = s.Addr
			}
			if forgot++; forgot < 5 {
				continue
			}
		}
		since := driver.Now()
		reply, err := c.call(ctx, s, b, t.slot, asking, script, keys, args)
		ret := conn.Refused(err)
		switch {
		case err == nil && len(reply) > 0 && epoch.Code(reply) == epoch.BeyondLimit:
			return nil, 0, epoch.Source{}, s.Beyond(b, reply)
		case err == nil && len(reply) > 0 && epoch.Code(reply) != epoch.NoEpoch:
			s.Had(reply)
			fail := s.Stale(b)
			if fail == nil && replicated && epoch.Code(reply) == 1 {
				fail = s.Replicated(ctx, b, c.epochKey(t.slot))
			}
			if fail == nil && !asking {
				fail = c.left(s, t.slot)
			}
			return reply, since, epoch.Source{Server: s, Binding: b}, fail
		case err == nil && s.Differs(b) != nil:
			return nil, 0, epoch.Source{}, s.Differs(b)
		case err == nil: // the record of the epoch is gone, is of another run, or has another MaxTTL; see grants
			b.Joined.Remove(t.slot)
			forgot++
		case ret != nil && ret.IsNoScript():
			stale = b
			forgot++
			if asking {
				t.ask = s.Addr
			}
		case t.again(ctx, s, err):
		default:
			fail := conn.Classify(ctx, err)
			fail.Moving = ret != nil && ret.IsTryAgain()
			return nil, 0, epoch.Source{}, fail
		}
	}
	return nil, 0, epoch.Source{}, &conn.Failure{Err: conn.Unavailable(errors.New("the cluster forgets its scripts or its data again and again"))}
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

// call runs a script. With the first one in a slot, the slot's epoch is joined.
func (c *Cluster) call(ctx context.Context, s *epoch.Server, b *epoch.Binding, slot int, asking bool, script int, keys, args []string) ([]rueidis.RedisMessage, error) {
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
