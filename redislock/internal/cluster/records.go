// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// A cluster has a record of the epoch for each hash slot, because a script can read only
// the slot of its keys. The record names the run of the node that has the slot. If a slot
// has no record of the present run, it has lost its data, or another node had it and some
// data may be lost. Then the slot grants nothing for MaxTTL. When a client finds one slot
// without a record, it makes records for all slots of the node. So their quarantines run at
// the same time; otherwise each would begin with the first use of its slot.

func (c *Cluster) epochKey(slot int) string {
	if c.one != nil {
		return c.one.EpochKey()
	}
	return c.conf.Prefix + "epoch:{" + slotTag(slot) + "}"
}

// tell builds the call of the script that begins or joins the epoch of a slot.
func (c *Cluster) tell(s *epoch.Server, b *epoch.Binding, wire rueidis.CommandClient, slot int, args []string) rueidis.Completed {
	key := c.epochKey(slot)
	return s.Tell(b, wire, []string{key, noKey(key)}, args)
}

// told reads the reply to the call of tell.
func (c *Cluster) told(s *epoch.Server, b *epoch.Binding, slot int, r rueidis.RedisResult) error {
	is, err := s.Told(r)
	if err != nil || !s.Wrote() {
		return err
	}
	if is.Theirs != "" {
		return nil // Server.Differs returns the error
	}
	b.Joined.Add(slot)
	s.TellClosed(b, is.Closed)
	// A client that begins a quarantine makes the records of the other slots. But it may have
	// ended, or may have lost the answer. So a client that first comes during the quarantine
	// checks them too.
	if is.Found != epoch.Joined || is.Closed > 0 && b.FirstVisit() {
		c.seed(s, b, is.Found != epoch.Foreign)
	}
	return nil
}

// Rejoin implements epoch.Slots.
func (c *Cluster) Rejoin(ctx context.Context, s *epoch.Server, wire rueidis.CommandClient, b, before *epoch.Binding) error {
	closed, begun, err := c.join(ctx, s, wire, b, before.Joined.All(), s.Args(epoch.Join, "", false))
	s.TellClosed(b, closed)
	if begun > 0 || closed > 0 && b.FirstVisit() {
		c.seed(s, b, false)
	}
	return err
}

// SomeKey implements epoch.Slots.
func (c *Cluster) SomeKey(s *epoch.Server) string {
	if slots := c.slotsOf(s, rand.IntN(epoch.SlotCount)); len(slots) > 0 {
		return c.epochKey(slots[0])
	}
	return ""
}

// join begins or joins the epochs of slots. It returns the longest remaining quarantine, and
// how many epochs have begun.
func (c *Cluster) join(ctx context.Context, s *epoch.Server, wire rueidis.CommandClient, b *epoch.Binding, slots []int, args []string) (closed time.Duration, begun int, err error) {
	if len(slots) == 0 {
		return 0, 0, nil
	}
	var cmds []rueidis.Completed
	for _, slot := range slots {
		cmds = append(cmds, c.tell(s, b, wire, slot, args))
	}
	for i, r := range wire.DoMulti(ctx, cmds...) {
		is, e := s.Told(r)
		if e != nil {
			err = e
			continue
		}
		if is.Theirs != "" {
			continue
		}
		b.Joined.Add(slots[i])
		closed = max(closed, is.Closed)
		if is.Found != epoch.Joined {
			begun++
		}
	}
	return closed, begun, err
}

const epochBatch = 100 // slots at a time

// seed begins the epochs of the other slots of a node, in the background. The caller has
// found that the record of one slot was missing, or was of another run. If it was missing,
// the caller sets all: perhaps nobody has used the cluster before, and seed begins the
// epochs of all nodes.
func (c *Cluster) seed(s *epoch.Server, b *epoch.Binding, all bool) {
	if !b.Seeding.CompareAndSwap(false, true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spawn(func() {
		defer b.Seeding.Store(false)
		ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
		defer cancel()
		c.seedOne(ctx, s)
		if all {
			c.seedOthers(ctx, s)
		}
	})
}

// seedOne begins the epochs of the slots of one node, some slots at a time, beginning with a
// random one. It stops when some slots all have records, since another client is then doing
// the same. While the node does not answer, it tries again, since a slot without a record
// costs its first user a whole quarantine. After an error it does not stop at slots with
// records, since it may have made these records itself (mine).
func (c *Cluster) seedOne(ctx context.Context, s *epoch.Server) {
	slots, n, mine := c.slotsOf(s, rand.IntN(epoch.SlotCount)), epochBatch/10, false
	for len(slots) > 0 {
		n = min(len(slots), n)
		b, err := s.Bound(ctx, nil)
		if err == nil {
			var begun int
			_, begun, err = c.join(ctx, s, s.Client, b, slots[:n], s.Args(epoch.Join, "", false))
			if err == nil && begun == 0 && !mine {
				return
			}
		}
		if mine = err != nil; !mine {
			slots, n = slots[n:], epochBatch
			continue
		}
		if !pause(ctx) {
			return
		}
		slots = c.slotsOf(s, slots[0])
	}
}

// pause waits for 100 ms. It returns false if ctx ends before.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(100 * time.Millisecond):
		return true
	}
}

func (c *Cluster) seedOthers(ctx context.Context, s *epoch.Server) {
	servers, err := c.Servers(ctx)
	if err != nil {
		return
	}
	_ = each(servers, func(_ int, other *epoch.Server) error {
		if other != s {
			c.seedOne(ctx, other)
		}
		return nil
	})
}

// slotsOf returns the slots of a node, in ascending order from the slot from on. After the
// last slot of the cluster come the slots below from.
func (c *Cluster) slotsOf(s *epoch.Server, from int) (slots []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.owners {
		slot := (from + i) % len(c.owners)
		if n := c.owners[slot]; n != nil && n.now() == s {
			slots = append(slots, slot)
		}
	}
	return slots
}

// Change changes the records of all slots: with the mode epoch.Trust it ends the quarantine, and, if this participant's
// MaxTTL is set explicitly, makes it the store's. With epoch.Setting it makes this participant's MaxTTL the store's. A
// longer MaxTTL takes effect at once. So does a shorter one, but a quarantine still lasts until leases with the longer one
// have ended. A slot that Change does not reach learns the new MaxTTL later, from clients that have got leases in other
// slots.
func (c *Cluster) Change(ctx context.Context, mode string) error {
	if c.one != nil {
		return c.one.Change(ctx, mode)
	}
	servers, err := c.Servers(ctx)
	if err != nil {
		return conn.NotBound(ctx, err).Err
	}
	return each(servers, func(_ int, s *epoch.Server) error { return c.changeAll(ctx, s, mode) })
}

func (c *Cluster) changeAll(ctx context.Context, s *epoch.Server, mode string) error {
	b, err := s.Bound(ctx, nil)
	if err != nil {
		return conn.NotBound(ctx, err).Err
	}
	if !b.Guarded() {
		return nil
	}
	slots := c.slotsOf(s, 0)
	n, args := min(len(slots), 1), s.Args(mode, "", true) // only the call for the first slot notifies the other clients
	for len(slots) > 0 {
		if _, _, err := c.join(ctx, s, s.Client, b, slots[:n], args); err != nil {
			return conn.NotBound(ctx, err).Err
		}
		if fail := s.Differs(b); fail != nil {
			return fail.Err
		}
		slots = slots[n:]
		n, args = min(len(slots), epochBatch), s.Args(mode, "", false)
	}
	return nil
}
