// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// WAIT holds up its connection, and is about what that connection has written. So
// it has one of its own, where something is written first: replicas have all of it
// in the order in which it was written. One WAIT speaks for all requests that
// were answered before.

// markSuffix makes the key that is written from that of a lock.
const markSuffix = ":mark"

// replicas is the connection for WAIT.
type replicas struct {
	mu     sync.Mutex // guards the fields below
	rounds []*round   // that have not begun
	busy   bool       // somebody works on them

	conn rueidis.DedicatedClient // of who works on them; nil if there is none
	free func()
}

// round is one WAIT.
type round struct {
	b    *binding
	key  string
	done chan struct{} // closed when the fields below are set
	have int64
	err  error
}

// RunReplicated is Run, and waits until Config.Replicas replicas have what a
// reply of 1 has written. It also returns who has answered. It fails with Failure.Behind if they do not within
// Config.ReplicaTimeout.
func (s *Server) RunReplicated(ctx context.Context, script int, keys, args []string) (reply []rueidis.RedisMessage, since driver.Instant, by Source, fail *Failure) {
	reply, since, b, fail := s.run(ctx, script, keys, args)
	if fail == nil && Code(reply) == 1 {
		fail = s.replicated(ctx, b, keys[0])
	}
	return reply, since, Source{s, b}, fail
}

// replicated waits for the replicas of what b's scripts have written until now.
func (s *Server) replicated(ctx context.Context, b *binding, key string) *Failure {
	if s.Replicas == 0 {
		return nil
	}
	r := s.join(b, key+markSuffix)
	select {
	case <-r.done:
	case <-ctx.Done():
		return &Failure{Err: ctx.Err(), Maybe: true}
	}
	if fail := s.behind(r); fail != nil {
		return fail
	}
	return s.stale(b)
}

// join returns a round that has not begun.
func (s *Server) join(b *binding, key string) *round {
	c := &s.replicas
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.rounds {
		if r.b == b {
			return r
		}
	}
	r := &round{b: b, key: key, done: make(chan struct{})}
	switch {
	case s.ctx.Err() != nil:
		r.err = s.ctx.Err()
		close(r.done)
		return r
	case !c.busy:
		c.busy = true
		s.work.Go(s.waitForReplicas)
	}
	c.rounds = append(c.rounds, r)
	return r
}

func (s *Server) waitForReplicas() {
	c := &s.replicas
	for {
		c.mu.Lock()
		if len(c.rounds) == 0 {
			c.busy = false
			c.mu.Unlock()
			return
		}
		r := c.rounds[0]
		c.rounds = c.rounds[1:]
		c.mu.Unlock()
		for fresh := false; !fresh; {
			fresh = c.conn == nil
			if r.have, r.err = s.wait(r); r.err == nil {
				break
			}
			// A connection that was made for an earlier round may lead nowhere, or to a
			// server that is not the master any more.
			c.hangUp()
		}
		close(r.done)
	}
}

func (s *Server) wait(r *round) (have int64, err error) {
	c := &s.replicas
	if c.conn == nil {
		c.conn, c.free = s.client.Dedicate()
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.ReplicaTimeout+s.Timeout)
	defer cancel()
	key := r.key
	for tries := 0; ; tries++ {
		replies := c.conn.DoMulti(ctx, r.b.call(c.conn, s.markScript(), []string{key}, nil),
			c.conn.B().Wait().Numreplicas(int64(s.Replicas)).Timeout(s.ReplicaTimeout.Milliseconds()).Build())
		if err := replies[0].Error(); err == nil {
			have, err = replies[1].AsInt64()
			return have, Lacking(err, "wait")
		} else if key = s.markElsewhere(err); key == "" || tries == 5 {
			return 0, err
		}
	}
}

// markElsewhere returns a key in any slot of a node that has refused to write one,
// as its slot is moving, else "". Which slot the mark is in does not matter.
func (s *Server) markElsewhere(err error) string {
	ret := refused(err)
	if s.cluster == nil || ret == nil {
		return ""
	}
	_, moved := ret.IsMoved()
	_, ask := ret.IsAsk()
	slots := s.cluster.slotsOf(s, rand.IntN(slotCount))
	if !moved && !ask || len(slots) == 0 {
		return ""
	}
	return s.cluster.epochKey(slots[0]) + markSuffix
}

func (c *replicas) hangUp() {
	if c.conn != nil {
		c.conn.Close()
		c.free()
		c.conn = nil
	}
}

// behind returns why what was written before r is not where it should be, or nil.
func (s *Server) behind(r *round) *Failure {
	var why error
	var lasting bool
	switch {
	case r.err != nil:
		why, lasting = explain(r.err)
		why = fmt.Errorf("whether replicas have the lease is not known: %w", why)
	case r.have < int64(s.Replicas):
		why = fmt.Errorf("%d of %d replicas had the lease after %v (WaitReplicas): are they connected to the master?",
			r.have, s.Replicas, s.ReplicaTimeout)
	default:
		return nil
	}
	return &Failure{Err: fmt.Errorf("%w: %w", driver.ErrUncertain, why), Maybe: true, Lasting: lasting, Behind: why}
}

// ReplicaTimeout returns for how long replicas are waited for by who uses a TTL.
func ReplicaTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/10, 50*time.Millisecond), time.Second)
}
