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

func (c *Cluster) epochKey(slot int) string { return c.conf.Prefix + "epoch:{" + slotTag(slot) + "}" }

// epochOf builds the call of the script that begins or joins the epoch of a slot.
func (s *Server) epochOf(b *binding, c rueidis.CommandClient, slot int, bless bool) rueidis.Completed {
	key := s.cluster.epochKey(slot)
	return b.call(c, s.epochScript(), []string{key, noKey(key)}, []string{Millis(s.MaxTTL), Bit(bless), ""})
}

// joinedEpoch notes what that script has returned.
func (s *Server) joinedEpoch(b *binding, slot int, r rueidis.RedisResult) error {
	closed, found, err := epochReply(r)
	if err != nil {
		return err
	}
	b.joined.add(slot)
	s.tellClosed(b, closed)
	if found != joined {
		s.cluster.seed(s, b, slot, found == missing)
	}
	return nil
}

// joinAgain joins the epochs of all slots that were in use by the run before.
func (s *Server) joinAgain(ctx context.Context, conn rueidis.CommandClient, b, stale *binding) {
	var slots []int
	for slot := range slotCount {
		if stale.joined.has(slot) {
			slots = append(slots, slot)
		}
	}
	// What fails is done with the next request.
	closed, begun, _ := s.beginEpochs(ctx, conn, b, slots, false)
	s.tellClosed(b, closed)
	if begun > 0 {
		s.cluster.seed(s, b, slots[0], false)
	}
}

// beginEpochs begins or joins the epochs of slots, and returns how many have begun,
// and for how long nothing is granted there.
func (s *Server) beginEpochs(ctx context.Context, conn rueidis.CommandClient, b *binding, slots []int, bless bool) (closed time.Duration, begun int, err error) {
	if len(slots) == 0 {
		return 0, 0, nil
	}
	var cmds []rueidis.Completed
	for _, slot := range slots {
		cmds = append(cmds, s.epochOf(b, conn, slot, bless))
	}
	for i, r := range conn.DoMulti(ctx, cmds...) {
		left, found, e := epochReply(r)
		if e != nil {
			err = e
			continue
		}
		b.joined.add(slots[i])
		closed = max(closed, left)
		if found != joined {
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
		if _, begun, _ := s.beginEpochs(ctx, s.client, b, slots[:n], false); begun == 0 {
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

// Bless ends the quarantine of all slots and sets the longest TTL in use to MaxTTL.
func (c *Cluster) Bless(ctx context.Context) error {
	servers, err := c.Servers(ctx)
	if err != nil {
		return NotBound(ctx, err).Err
	}
	errs := make([]error, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { errs[i] = c.blessAll(ctx, s) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return NotBound(ctx, err).Err
		}
	}
	return nil
}

func (c *Cluster) blessAll(ctx context.Context, s *Server) error {
	b, err := s.bound(ctx, nil)
	if err != nil || b.boot == "" {
		return err
	}
	slots := c.slotsOf(s, 0)
	for len(slots) > 0 {
		n := min(len(slots), epochBatch)
		if _, _, err := s.beginEpochs(ctx, s.client, b, slots[:n], true); err != nil {
			return err
		}
		slots = slots[n:]
	}
	return nil
}
