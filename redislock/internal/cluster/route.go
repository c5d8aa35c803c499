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

// settle is how long a request goes on while a hash slot is moving, or while the nodes
// disagree about the owner of the slot. Redis moves a slot key by key, and refuses scripts
// with several keys meanwhile.
const settle = 2 * time.Second

// trip is one request on its way to the node that has its slot.
type trip struct {
	c    *Cluster
	slot int
	ask  string // the address of the node that gets the next attempt, with ASKING; empty for the owner

	hops  int            // how many attempts a node has sent elsewhere, or has told to try again
	began driver.Instant // when the first of these was

	stale  *epoch.Binding // must not be used any more
	forgot int            // how many attempts have found a stale Binding, or no record of the epoch
}

func (c *Cluster) trip(key string) trip {
	return trip{c: c, slot: c.slot(key)}
}

// next returns the node for the next attempt. asking says that the node does not own the
// slot yet, so that the request needs ASKING.
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

// again reports whether to send the request again after err, to the node that next
// returns. If the request should not be sent at once, again waits first.
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

// Run runs a script at the server that has its first key; see epoch.Server.Run.
//
// In a cluster a script with several keys does not run while their hash slot moves from one node to another: each
// node may have some of the keys, and the script would fail half-way.
func (c *Cluster) Run(ctx context.Context, script int, keys, args []string) (epoch.Reply, *driver.Failure) {
	if c.Before != nil {
		c.Before(script)
	}
	if c.one != nil {
		return c.one.Run(ctx, script, keys, args)
	}
	t := c.trip(keys[0])
	if len(keys) > 1 {
		keys = append(keys[:len(keys):len(keys)], noKey(c.epochKey(t.slot)))
	}
	for t.forgot < epoch.Tries {
		reply, again, fail := t.try(ctx, script, keys, args)
		if !again {
			return reply, fail
		}
	}
	return epoch.Reply{}, epoch.Forgets()
}

// try makes one attempt. again says that another one may help.
func (t *trip) try(ctx context.Context, script int, keys, args []string) (reply epoch.Reply, again bool, fail *driver.Failure) {
	s, asking, err := t.next(ctx)
	if err != nil {
		return reply, false, conn.NotBound(ctx, err)
	}
	b, err := s.Bound(ctx, t.stale)
	if err != nil {
		if t.again(ctx, s, err) {
			return reply, true, nil
		}
		return reply, false, conn.NotBound(ctx, err)
	}
	if again, fail = s.Prepare(b, script); fail != nil {
		return reply, false, fail
	}
	if again {
		t.anew(s, b, asking)
		return reply, true, nil
	}
	since := driver.Now()
	parts, err := t.call(ctx, s, b, asking, script, keys, args)
	if err != nil {
		ret := conn.Refused(err)
		if ret != nil && ret.IsNoScript() {
			t.anew(s, b, asking)
			return reply, true, nil
		}
		if t.again(ctx, s, err) {
			return reply, true, nil
		}
		fail = conn.Classify(ctx, err)
		fail.Passing = ret != nil && ret.IsTryAgain()
		return reply, false, fail
	}
	reply = epoch.Reply{Parts: parts, Since: since, By: s, Binding: b}
	if again, fail = s.Judge(ctx, reply, script, t.c.epochKey(t.slot)); again {
		b.Joined.Remove(t.slot)
		t.forgot++
	} else if fail == nil && !asking {
		fail = t.c.left(s, t.slot)
	}
	return reply, again, fail
}

// anew makes the next attempt use another Binding than b.
func (t *trip) anew(s *epoch.Server, b *epoch.Binding, asking bool) {
	t.stale = b
	t.forgot++
	if asking {
		t.ask = s.Addr
	}
}

// left returns an error if a reply from a node must not be trusted, because the slot is now
// at another node. If a node has hung, and the cluster has replaced it, it first executes
// the requests that were sent to it, and only then learns that it was replaced.
func (c *Cluster) left(s *epoch.Server, slot int) *driver.Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.owners[slot]; n == nil || n.now() == s {
		return nil
	}
	return &driver.Failure{Err: fmt.Errorf("%w: the answer is from a node that had the hash slot before", driver.ErrUncertain), Maybe: true}
}

// noKey returns a key that never exists, in the slot of key. While a slot moves, both nodes
// answer TRYAGAIN to a script with this key, wherever its other keys are.
func noKey(key string) string { return key + ":none" }

// call runs a script for one request. It joins the epoch of the slot with the first request in that slot.
func (t *trip) call(ctx context.Context, s *epoch.Server, b *epoch.Binding, asking bool, script int, keys, args []string) ([]rueidis.RedisMessage, error) {
	run := b.Call(s.Client, script, keys, args)
	joined := !b.Guarded() || b.Joined.Has(t.slot)
	if joined && !asking {
		return s.Read(script, s.Do(ctx, run))
	}
	first := s.Client.B().Asking().Build()
	if !asking {
		first = t.c.tell(s, b, s.Client, t.slot, s.Args(s.Mode(), "", true))
	}
	replies, err := s.DoMulti(ctx, first, run)
	if err != nil {
		return nil, err
	}
	reply, err := s.Read(script, replies[1])
	if asking {
		return reply, err
	}
	if fail := t.c.told(s, b, t.slot, replies[0]); err == nil && epoch.NoEpoch(reply) && fail != nil {
		return nil, fail
	}
	return reply, err
}
