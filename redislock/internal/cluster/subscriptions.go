// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// In a cluster the script that publishes counts only subscriptions at the node that has
// the slot, to a channel in that slot. So there is a subscription for each slot with a
// waiter. The node ends the subscription when it gives the slot away, but not when it
// becomes a replica of the node that has taken the slot over. The replica then delivers
// what is published there, but the script does not count its subscriptions. So a
// subscription follows the owner of its slot, and a client that has one asks the owner
// now and then whether it is still a master.

// keptIdle is how long the subscription of a slot that nobody uses is kept.
const keptIdle = time.Minute

// ChannelFor begins the channels of messages about a lock's key.
func (c *Cluster) ChannelFor(key string) string { return c.channelOf(c.slot(key)) }

func (c *Cluster) channelOf(slot int) string {
	if c.one != nil {
		return c.conf.Channel
	}
	return c.conf.Channel + "{" + slotTag(slot) + "}"
}

// slotSubscription is the subscription of one slot. Cluster.mu guards it.
type slotSubscription struct {
	*conn.Subscription
	users int
	end   context.CancelFunc
	idle  *time.Timer // ends it, while there are no users

	at    *epoch.Server      // that it listens to, or begins to; nil if there is none
	leave context.CancelFunc // ends that
}

// Subscription returns the subscription for messages about a lock's key. Leave must be
// called after it.
func (c *Cluster) Subscription(key string) *conn.Subscription {
	slot := c.slot(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.subscriptions[slot]
	if e == nil {
		ctx, end := context.WithCancel(c.ctx)
		e = &slotSubscription{Subscription: conn.NewSubscription(c.conf.Opened), end: end}
		c.subscriptions[slot] = e
		c.spawn(func() { c.keep(ctx, e, slot) })
		if !c.watching {
			c.watching = c.spawn(c.watch)
		}
	}
	if e.idle != nil {
		e.idle.Stop()
	}
	e.users++
	return e.Subscription
}

// Session returns the session over which messages about a lock's key come, if there is one, or why there is none.
func (c *Cluster) Session(key string) (conn.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.subscriptions[c.slot(key)]; e != nil {
		return e.Session()
	}
	return conn.Session{}, nil
}

// Hears reports whether messages about a lock's key come over a subscription to its slot, in a cluster.
func (c *Cluster) Hears(sub *conn.Subscription, key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.subscriptions[c.slot(key)]
	return c.one == nil && e != nil && e.Subscription == sub
}

// Listening returns the session over which messages to this client come, if there is one: from the node
// that has the key. Every node passes those messages on.
func (c *Cluster) Listening(key string) (now conn.Session) {
	if s := c.At(key); s != nil {
		now, _ = s.Subscription().Session()
	}
	return now
}

// Leave undoes a call of Subscription.
func (c *Cluster) Leave(key string) {
	slot := c.slot(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.subscriptions[slot]
	if e.users--; e.users == 0 {
		e.idle = time.AfterFunc(keptIdle, func() { c.drop(slot) })
	}
}

// drop ends the subscription of a slot, unless it has users again.
func (c *Cluster) drop(slot int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.subscriptions[slot]; e != nil && e.users == 0 {
		e.end()
		delete(c.subscriptions, slot)
	}
}

func (c *Cluster) keep(ctx context.Context, e *slotSubscription, slot int) {
	e.Keep(ctx, func(ctx context.Context) error { return c.receive(ctx, e, slot) })
	if n := c.ownerNow(slot); n != nil && n.now() != nil && (c.ctx.Err() == nil || !c.conf.Owned) {
		c.unsubscribe(n.now(), slot) // the connection goes on
	}
}

func (c *Cluster) receive(ctx context.Context, e *slotSubscription, slot int) error {
	s, err := c.owner(ctx, slot)
	if err != nil {
		return err
	}
	own := c.channelOf(slot) + c.conf.ID
	here, leave := context.WithCancel(ctx)
	defer leave()
	c.mu.Lock()
	e.at, e.leave = s, leave
	c.mu.Unlock()
	if c.left(s, slot) != nil { // before there was anything to leave
		return nil
	}
	err = s.Receive(here, e.Subscription, s.Client.B().Ssubscribe().Channel(own).Build(), own, func() {})
	c.mu.Lock()
	e.at, e.leave = nil, nil
	c.mu.Unlock()
	if here.Err() != nil && ctx.Err() == nil {
		go c.unsubscribe(s, slot) // it may hang
		return nil
	}
	t := &trip{c: c, slot: slot}
	if err != nil && ctx.Err() == nil && t.again(ctx, s, err) {
		return nil
	}
	return conn.Lacking(err, "ssubscribe")
}

// follow moves the subscriptions to where their slots are now. Cluster.mu is held.
func (c *Cluster) follow() {
	for slot, e := range c.subscriptions {
		n := c.owners[slot]
		if n == nil || e.at != nil && n.now() == e.at {
			continue
		}
		if e.leave != nil {
			e.leave()
		}
		e.Retry()
	}
}

// watchEvery is how often nodes with waiters are asked.
const watchEvery = 500 * time.Millisecond

// watch looks for new owners of the slots of a node that does not answer or is no
// longer a master. It goes on until there are no waiters.
func (c *Cluster) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		c.mu.Lock()
		at := make(map[*epoch.Server]bool)
		for _, e := range c.subscriptions {
			if e.at != nil && e.users > 0 {
				at[e.at] = true
			}
		}
		c.watching = len(c.subscriptions) > 0
		if !c.watching {
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		var asked sync.WaitGroup
		for s := range at {
			asked.Go(func() {
				if !leads(c.ctx, s) {
					c.suspect(s)
				}
			})
		}
		asked.Wait()
	}
}

// leads asks a server whether it is a master. If the user may not ask that, the server
// counts as a master.
func leads(ctx context.Context, s *epoch.Server) bool {
	ctx, cancel := context.WithTimeout(ctx, watchEvery)
	defer cancel()
	text, err := s.Do(ctx, s.Client.B().Info().Section("replication").Build()).ToString()
	if err != nil {
		return conn.Refused(err) != nil
	}
	return epoch.ParseInfo(text)["role"] != "slave"
}

func (c *Cluster) unsubscribe(s *epoch.Server, slot int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.Do(ctx, s.Client.B().Sunsubscribe().Channel(c.channelOf(slot)+c.conf.ID).Build())
}

// Listen begins to hear one server. A subscription to a node of a cluster begins with the first request to it.
func (c *Cluster) Listen() {
	if c.one != nil {
		c.one.Listen()
	}
}

// Hush ends all subscriptions; see Server.Hush.
func (c *Cluster) Hush() {
	if c.conf.Owned {
		return
	}
	c.mu.Lock()
	var servers []*epoch.Server
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
