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

	stale     *epoch.Binding // must not be used any more
	forgot    int            // how many attempts have found a stale Binding, or no record of the epoch
	elsewhere bool           // the connection has led to a replica, or to another run
	fail      *conn.Failure  // why another attempt was needed; the result if attempts run out
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

// Run runs a script at the server that has its first key. It returns the reply, whose first element is a
// number; an instant before the script was sent; and the run that has answered. If scripts are missing at the
// server, Run loads them. If the epoch is missing, Run begins it. If Run returns a Failure, the caller must not
// trust the reply.
//
// After a script has granted or renewed a lease, Run waits until Config.Replicas replicas have confirmed it. If
// they do not confirm within Config.ReplicaTimeout, Run fails with conn.Behind.
//
// In a cluster a script with several keys does not run while their hash slot moves from one node to another: each
// node may have some of the keys, and the script would fail half-way.
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

// try makes one attempt. If it returns neither a reply nor a Failure, another attempt may help.
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
	if again, err := s.Prepare(b, script); err != nil {
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

// unrecorded handles NoEpoch: the record is missing, is of another run, or has another MaxTTL. It makes the next attempt
// join the epoch anew.
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

// anew makes the next attempt use another Binding than b.
func (t *trip) anew(s *epoch.Server, b *epoch.Binding, asking bool, why *conn.Failure) {
	t.stale, t.fail = b, why
	t.forgot++
	if asking {
		t.ask = s.Addr
	}
}

// refused returns the Failure of a request that has failed with err, or nil if another attempt may help.
func (t *trip) refused(ctx context.Context, s *epoch.Server, b *epoch.Binding, asking bool, made int64, err error) *conn.Failure {
	ret := conn.Refused(err)
	switch first := t.stale == nil && !t.elsewhere; {
	case t.c.one != nil:
		if fail := s.Elsewhere(ctx, first, made, err); fail != nil {
			if t.anew(s, b, false, fail); !first { // b is new, and so leads to a master: keep it
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

// left returns an error if a reply from a node must not be trusted, because the slot is now
// at another node. If a node has hung, and the cluster has replaced it, it first executes
// the requests that were sent to it, and only then learns that it was replaced.
func (c *Cluster) left(s *epoch.Server, slot int) *conn.Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.owners[slot]; n == nil || n.now() == s {
		return nil
	}
	return &conn.Failure{Err: fmt.Errorf("%w: the answer is from a node that had the hash slot before", driver.ErrUncertain), Maybe: true}
}

// noKey returns a key that never exists, in the slot of key. While a slot moves, both nodes
// answer TRYAGAIN to a script with this key, wherever its other keys are.
func noKey(key string) string { return key + ":none" }

// call runs a script for one request. At a single server it may combine the request with others into one call. In a
// cluster it joins the epoch of the slot with the first request in that slot.
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
		first = c.tell(s, b, s.Client, slot, s.Args(s.Mode(), "", true))
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
