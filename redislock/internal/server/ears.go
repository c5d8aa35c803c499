// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// In a cluster only who subscribes at the node that has a slot, to a channel in that
// slot, is counted by the script that publishes. So there is an Ear for each slot in
// which somebody waits. The node ends the subscription when it gives the slot away.

// earIdle is how long the Ear of a slot that nobody uses is kept.
const earIdle = time.Minute

// ChannelFor begins the channels of messages about a lock's key.
func (c *Cluster) ChannelFor(key string) string { return c.channelOf(slotOf(key)) }

func (c *Cluster) channelOf(slot int) string { return c.conf.Channel + "{" + slotTag(slot) + "}" }

// slotEar is the Ear of a slot. Cluster.mu guards it.
type slotEar struct {
	*Ear
	users int
	end   context.CancelFunc
	idle  *time.Timer // ends it, while there are no users
}

// Ear returns what tells when messages about a lock's key can be heard. Leave must
// be called after it.
func (c *Cluster) Ear(key string) *Ear {
	slot := slotOf(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.ears[slot]
	if e == nil {
		ctx, end := context.WithCancel(c.ctx)
		e = &slotEar{Ear: newEar(c.conf.Heard), end: end}
		c.ears[slot] = e
		c.spawn(func() { c.keep(ctx, e.Ear, slot) })
	}
	if e.idle != nil {
		e.idle.Stop()
	}
	e.users++
	return e.Ear
}

// Leave undoes a call of Ear.
func (c *Cluster) Leave(key string) {
	slot := slotOf(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.ears[slot]
	if e.users--; e.users == 0 {
		e.idle = time.AfterFunc(earIdle, func() { c.drop(slot) })
	}
}

// drop ends the Ear of a slot, unless somebody uses it again.
func (c *Cluster) drop(slot int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.ears[slot]; e != nil && e.users == 0 {
		e.end()
		delete(c.ears, slot)
	}
}

func (c *Cluster) keep(ctx context.Context, e *Ear, slot int) {
	e.keep(ctx, func(ctx context.Context) error { return c.receive(ctx, slot) }, func() {})
	if c.ctx.Err() == nil || !c.conf.Owned {
		c.unsubscribe(slot) // the connection goes on
	}
}

func (c *Cluster) receive(ctx context.Context, slot int) error {
	s, err := c.owner(ctx, slot)
	if err != nil {
		return err
	}
	err = s.client.Receive(ctx, s.client.B().Ssubscribe().Channel(c.channelOf(slot)+c.conf.ID).Build(),
		func(m rueidis.PubSubMessage) { s.Hear(m.Message) })
	t := &trip{c: c, slot: slot}
	if err != nil && ctx.Err() == nil && t.again(ctx, s, err) {
		return nil
	}
	return Lacking(err, "ssubscribe")
}

func (c *Cluster) unsubscribe(slot int) {
	n := c.ownerNow(slot)
	if n == nil || n.now() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s := n.now()
	s.Do(ctx, s.client.B().Sunsubscribe().Channel(c.channelOf(slot)+c.conf.ID).Build())
}

// Listen does nothing: a node is listened to when it is asked for something first.
func (c *Cluster) Listen() {}

// Hush ends all subscriptions; see Server.Hush.
func (c *Cluster) Hush() {
	if c.conf.Owned {
		return
	}
	c.mu.Lock()
	var servers []*Server
	for _, n := range c.servers {
		if s := n.now(); s != nil {
			servers = append(servers, s)
		}
	}
	c.mu.Unlock()
	for _, s := range servers {
		s.Hush()
	}
}
