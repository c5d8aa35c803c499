// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// A cluster has a record of the epoch for each hash slot, as a script can read only
// what is in the slot of its keys. The record names the run of the node that has the
// slot. A slot without a record of this run has lost its data, or may have, because
// another node had it. Then nothing is granted in it for the longest TTL in use. As
// soon as one record of a node is missing, records are made for all its slots, so that
// their quarantines run at the same time, and not each from its first use.

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

// told records what that script has returned.
func (c *Cluster) told(s *epoch.Server, b *epoch.Binding, slot int, r rueidis.RedisResult) error {
	is, err := s.Told(r)
	if err != nil || !s.Wrote() {
		return err
	}
	if is.Theirs != "" {
		return nil // Differs says so
	}
	b.Joined.Add(slot)
	s.TellClosed(b, is.Closed)
	// The answer with a new record may have been lost, or its client may have
	// ended. So a client that comes during the quarantine looks, too.
	if is.Found != epoch.Joined || is.Closed > 0 && b.Comes() {
		c.seed(s, b, is.Found != epoch.Foreign)
	}
	return nil
}

// JoinAgain implements epoch.Slots. What fails is repeated with the next request.
func (c *Cluster) JoinAgain(ctx context.Context, s *epoch.Server, wire rueidis.CommandClient, b, stale *epoch.Binding) {
	slots := stale.Joined.All()
	closed, begun, _ := c.join(ctx, s, wire, b, slots, s.Args(epoch.Join))
	s.TellClosed(b, closed)
	if begun > 0 || closed > 0 && b.Comes() {
		c.seed(s, b, false)
	}
}

// JoinAll implements epoch.Slots.
func (c *Cluster) JoinAll(ctx context.Context, s *epoch.Server, b *epoch.Binding) error {
	slots := b.Joined.All()
	_, begun, err := c.join(ctx, s, s.Client, b, slots, s.Args(epoch.Join))
	if begun > 0 {
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

// join begins or joins the epochs of slots, and returns how many have begun,
// and for how long nothing is granted there.
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

// seed begins the epochs of the other slots of a node when the record of one slot was
// missing, or was of another run. If all is set, because nobody has used the cluster
// before, it does so for the other nodes too.
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

// seedOne tries again while the node does not answer: a slot without a record costs its
// first user a whole quarantine. It begins anywhere, and stops where all have records:
// another client may be doing the same. After an error that proves nothing, as these
// records may be its own.
func (c *Cluster) seedOne(ctx context.Context, s *epoch.Server) {
	slots, n, mine := c.slotsOf(s, rand.IntN(epoch.SlotCount)), epochBatch/10, false
	for len(slots) > 0 {
		n = min(len(slots), n)
		b, err := s.Bound(ctx, nil)
		if err == nil {
			var begun int
			_, begun, err = c.join(ctx, s, s.Client, b, slots[:n], s.Args(epoch.Join))
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

// pause returns false if ctx ended meanwhile.
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
	var others sync.WaitGroup
	for _, other := range servers {
		if other == s {
			continue
		}
		others.Go(func() { c.seedOne(ctx, other) })
	}
	others.Wait()
}

// slotsOf returns the slots of a node, beginning with those from a certain one on.
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

// Bless ends the quarantine. If the participant has a MaxTTL of its own, the store has that from now on.
func (c *Cluster) Bless(ctx context.Context) error { return c.change(ctx, epoch.Trust) }

// Set makes the participant's own MaxTTL the store's. A longer one takes effect at once. So does a shorter
// one, but a quarantine still lasts until leases with the longer one have ended. Slots that it does not
// reach learn it from clients that have got leases elsewhere.
func (c *Cluster) Set(ctx context.Context) error { return c.change(ctx, epoch.Setting) }

func (c *Cluster) change(ctx context.Context, mode string) error {
	if c.one != nil {
		return c.one.Change(ctx, mode)
	}
	servers, err := c.Servers(ctx)
	if err != nil {
		return conn.NotBound(ctx, err).Err
	}
	errs := make([]error, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { errs[i] = c.changeAll(ctx, s, mode) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
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
	n, args := min(len(slots), 1), s.TellingArgs(mode) // the script notifies the others once
	for len(slots) > 0 {
		if _, _, err := c.join(ctx, s, s.Client, b, slots[:n], args); err != nil {
			return conn.NotBound(ctx, err).Err
		}
		if fail := s.Differs(b); fail != nil {
			return fail.Err
		}
		slots = slots[n:]
		n, args = min(len(slots), epochBatch), s.Args(mode)
	}
	return nil
}
