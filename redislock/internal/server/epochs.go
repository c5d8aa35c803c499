// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// A cluster has a record of the epoch for each hash slot, as a script can read what
// is in the slot of its keys only. It names the run of the node that has the slot. A
// slot without a record of this run has lost its data, or may have: it was another
// node's. Then nothing is granted in it for the longest TTL in use. Records are made
// for all slots of a node as soon as one is found to be missing, so that all of them
// wait at the same time, and not each when it is used first.

// slotSet is a set of slots.
type slotSet struct {
	bits [slotCount / 32]atomic.Uint32
}

func (s *slotSet) has(slot int) bool { return s.bits[slot/32].Load()&(1<<(slot%32)) != 0 }
func (s *slotSet) add(slot int)      { s.bits[slot/32].Or(1 << (slot % 32)) }
func (s *slotSet) remove(slot int)   { s.bits[slot/32].And(^uint32(1 << (slot % 32))) }

func (s *slotSet) all() (slots []int) {
	for slot := range slotCount {
		if s.has(slot) {
			slots = append(slots, slot)
		}
	}
	return slots
}

func (c *Cluster) epochKey(slot int) string { return c.conf.Prefix + "epoch:{" + slotTag(slot) + "}" }

// epochOf builds the call of the script that begins or joins the epoch of a slot.
func (s *Server) epochOf(b *binding, c rueidis.CommandClient, slot int, args []string) rueidis.Completed {
	key := s.cluster.epochKey(slot)
	return b.call(c, s.epochScript(), []string{key, noKey(key)}, args)
}

// joinedEpoch notes what that script has returned.
func (s *Server) joinedEpoch(b *binding, slot int, r rueidis.RedisResult) error {
	is, err := epochReply(r)
	if err != nil {
		return err
	}
	s.Limit.learn(is)
	if !s.writes.Load() {
		return nil
	}
	b.joined.add(slot)
	s.tellClosed(b, is.closed)
	if is.found != joined {
		s.cluster.seed(s, b, slot, is.found == missing)
	}
	return nil
}

// joinAgain joins the epochs of all slots that were in use by the run before.
func (s *Server) joinAgain(ctx context.Context, conn rueidis.CommandClient, b, stale *binding) {
	slots := stale.joined.all()
	// What fails is done with the next request.
	closed, begun, _ := s.beginEpochs(ctx, conn, b, slots, s.Limit.args(join, ""))
	s.tellClosed(b, closed)
	if begun > 0 {
		s.cluster.seed(s, b, slots[0], false)
	}
}

// beginEpochs begins or joins the epochs of slots, and returns how many have begun,
// and for how long nothing is granted there.
func (s *Server) beginEpochs(ctx context.Context, conn rueidis.CommandClient, b *binding, slots []int, args []string) (closed time.Duration, begun int, err error) {
	if len(slots) == 0 {
		return 0, 0, nil
	}
	var cmds []rueidis.Completed
	for _, slot := range slots {
		cmds = append(cmds, s.epochOf(b, conn, slot, args))
	}
	for i, r := range conn.DoMulti(ctx, cmds...) {
		is, e := epochReply(r)
		if e != nil {
			err = e
			continue
		}
		s.Limit.learn(is)
		b.joined.add(slots[i])
		closed = max(closed, is.closed)
		if is.found != joined {
			begun++
		}
	}
	return closed, begun, err
}

const epochBatch = 100 // slots at a time

// seed begins the epochs of the other slots of a node when that of one slot was
// missing, or was of another run. If all is set, which is where nobody has used the
// cluster before, it does so for the other nodes too.
func (c *Cluster) seed(s *Server, b *binding, from int, all bool) {
	if !b.seeding.CompareAndSwap(false, true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spawn(func() {
		defer b.seeding.Store(false)
		ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
		defer cancel()
		c.seedOne(ctx, s, b, from+1)
		if all {
			c.seedOthers(ctx, s)
		}
	})
}

// seedOne stops where nothing is left to do: somebody else is about it too.
func (c *Cluster) seedOne(ctx context.Context, s *Server, b *binding, from int) {
	slots := c.slotsOf(s, from)
	for len(slots) > 0 {
		n := min(len(slots), epochBatch)
		if _, begun, _ := s.beginEpochs(ctx, s.client, b, slots[:n], s.Limit.args(join, "")); begun == 0 {
			return
		}
		slots = slots[n:]
	}
}

func (c *Cluster) seedOthers(ctx context.Context, s *Server) {
	servers, err := c.Servers(ctx)
	if err != nil {
		return
	}
	var others sync.WaitGroup
	for _, other := range servers {
		if other == s {
			continue
		}
		others.Go(func() {
			if b, err := other.bound(ctx, nil); err == nil {
				c.seedOne(ctx, other, b, 0)
			}
		})
	}
	others.Wait()
}

// slotsOf returns the slots of a node, those from a certain one on first.
func (c *Cluster) slotsOf(s *Server, from int) (slots []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range slotCount {
		slot := (from + i) % slotCount
		if n := c.owners[slot]; n != nil && n.now() == s {
			slots = append(slots, slot)
		}
	}
	return slots
}

// Bless is as Server.Bless, for all slots.
func (c *Cluster) Bless(ctx context.Context) error { return c.change(ctx, bless) }

// Set is as Server.Set, for all slots. Those that are not reached learn it from clients that
// have been granted something elsewhere.
func (c *Cluster) Set(ctx context.Context) error { return c.change(ctx, set) }

func (c *Cluster) change(ctx context.Context, mode string) error {
	servers, err := c.Servers(ctx)
	if err != nil {
		return NotBound(ctx, err).Err
	}
	errs := make([]error, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { errs[i] = c.changeAll(ctx, s, mode) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return NotBound(ctx, err).Err
		}
	}
	return nil
}

func (c *Cluster) changeAll(ctx context.Context, s *Server, mode string) error {
	b, err := s.bound(ctx, nil)
	if err != nil || b.boot == "" {
		return err
	}
	slots := c.slotsOf(s, 0)
	n, args := min(len(slots), 1), s.telling(c.conf.Limit.changeArgs(mode)) // the others are told once
	for len(slots) > 0 {
		if _, _, err := s.beginEpochs(ctx, s.client, b, slots[:n], args); err != nil {
			return err
		}
		slots = slots[n:]
		n, args = min(len(slots), epochBatch), c.conf.Limit.changeArgs(mode)
	}
	return nil
}
