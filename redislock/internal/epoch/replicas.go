// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// WAIT blocks its connection, and covers only the writes of that connection. So WAIT has
// its own connection, which first writes a mark. Replicas get all writes in order, so a
// replica with the mark has all earlier writes. One WAIT covers all requests that were
// answered before it.

// markSuffix follows another key of the slot in the key of the mark.
const markSuffix = ":mark"

// replicas is the connection for WAIT, and the requests that wait for it.
type replicas struct {
	mu   sync.Mutex // guards next
	next *round     // that others may join; nil if there is none

	turn sync.Mutex              // held by the round under way; guards the fields below
	wire rueidis.DedicatedClient // nil if there is none
	free func()
}

// round is one WAIT.
type round struct {
	b    *Binding
	key  string        // of the mark
	done chan struct{} // closed when the fields below are set
	have int64         // how many replicas have confirmed
	err  error
}

// replicated waits until enough replicas have everything that b's scripts have written so far.
func (s *Server) replicated(ctx context.Context, b *Binding, key string) *driver.Failure {
	if s.Replicas == 0 {
		return nil
	}
	r := s.nextRound(b, key+markSuffix)
	select {
	case <-r.done:
	case <-ctx.Done():
		return &driver.Failure{Err: ctx.Err(), Maybe: true}
	}
	if fail := s.behind(r); fail != nil {
		return fail
	}
	return s.Stale(b)
}

// nextRound returns a round for b that has not begun.
func (s *Server) nextRound(b *Binding, key string) *round {
	c := &s.replicas
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil && c.next.b == b {
		return c.next
	}
	r := &round{b: b, key: key, done: make(chan struct{}), err: s.ctx.Err()}
	if r.err != nil {
		close(r.done)
		return r
	}
	c.next = r
	s.work.Go(func() { s.waitForReplicas(r) })
	return r
}

func (s *Server) waitForReplicas(r *round) {
	defer close(r.done)
	c := &s.replicas
	c.turn.Lock()
	defer c.turn.Unlock()
	c.mu.Lock()
	if c.next == r {
		c.next = nil
	}
	c.mu.Unlock()
	for fresh := false; !fresh; {
		fresh = c.wire == nil
		if r.have, r.err = s.wait(r); r.err == nil {
			return
		}
		// A connection from an earlier round may be dead, or lead to a server that is
		// no longer the master. So try once more with a fresh one.
		c.hangUp()
	}
}

func (s *Server) wait(r *round) (have int64, err error) {
	c := &s.replicas
	if c.wire == nil {
		c.wire, c.free = s.Client.Dedicate()
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.ReplicaTimeout+s.Timeout)
	defer cancel()
	key := r.key
	for tries := 0; ; tries++ {
		replies := c.wire.DoMulti(ctx, r.b.Call(c.wire, s.markScript(), []string{key}, nil),
			c.wire.B().Wait().Numreplicas(int64(s.Replicas)).Timeout(s.ReplicaTimeout.Milliseconds()).Build())
		if err := replies[0].Error(); err == nil {
			have, err = replies[1].AsInt64()
			return have, conn.Lacking(err, "wait")
		} else if key = s.markElsewhere(err); key == "" || tries == 5 {
			return 0, err
		}
	}
}

// markElsewhere returns another key for the mark if a node has refused to write the mark
// because its slot is moving, else "". The mark may be in any slot of the node.
func (s *Server) markElsewhere(err error) string {
	ret := conn.Refused(err)
	if s.Slots == nil || ret == nil {
		return ""
	}
	_, moved := ret.IsMoved()
	_, ask := ret.IsAsk()
	key := s.Slots.SomeKey(s)
	if !moved && !ask || key == "" {
		return ""
	}
	return key + markSuffix
}

func (c *replicas) hangUp() {
	if c.wire != nil {
		c.wire.Close()
		c.free()
		c.wire = nil
	}
}

// behind returns an error unless r has shown that enough replicas have the writes before it.
func (s *Server) behind(r *round) *driver.Failure {
	var why error
	var lasting bool
	switch {
	case r.err != nil:
		why, lasting = conn.Explain(r.err)
		why = fmt.Errorf("whether replicas have the lease is not known: %w", why)
	case r.have < int64(s.Replicas):
		why = fmt.Errorf("%d of %d replicas had the lease after %v (WaitReplicas): are they connected to the master?",
			r.have, s.Replicas, s.ReplicaTimeout)
	default:
		return nil
	}
	return &driver.Failure{Err: fmt.Errorf("%w: %w", driver.ErrUncertain, &conn.Behind{Err: why}), Maybe: true, Lasting: lasting}
}

// ReplicaTimeout returns how long a request for a lease with this TTL waits for replicas.
func ReplicaTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/10, 50*time.Millisecond), time.Second)
}
