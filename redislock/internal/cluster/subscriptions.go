// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// Before a script hands a lock to a waiter, it asks its node for subscriptions of the
// waiter's client. In a cluster a node counts only its own subscriptions. So a client has a
// subscription for each slot with a waiter, to a channel in that slot, at the node that has
// the slot. A node ends such a subscription when it gives the slot away. But it does not
// when it becomes a replica of the new owner of the slot: it then delivers the messages of
// the owner, but a script at the owner does not count its subscriptions. So a subscription
// follows the owner of its slot, and the client regularly asks the owner whether it is still
// a master.

// keptIdle is how long a client keeps the subscription of a slot in which it has no waiter.
const keptIdle = time.Minute

// ChannelFor returns the beginning of the channels for messages about the key of a lock.
// The id of a client follows.
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
	users int                // calls of Subscription without a call of Leave
	end   context.CancelFunc // ends the subscription
	idle  *time.Timer        // calls drop, while there are no users

	at    *epoch.Server      // to which it subscribes or has subscribed; nil if there is none
	leave context.CancelFunc // ends the subscription to at
}

// Subscription returns the subscription for messages about the key of a lock. The caller
// must call Leave when it does not need the subscription any more.
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

// Session returns the session that delivers messages about the key of a lock. If there is none, it returns the zero
// Session, and the error of the server if it has refused.
func (c *Cluster) Session(key string) (conn.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.subscriptions[c.slot(key)]; e != nil {
		return e.Session()
	}
	return conn.Session{}, nil
}

// Hears reports whether sub is the present subscription for messages about the key of a lock, in a cluster.
func (c *Cluster) Hears(sub *conn.Subscription, key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.subscriptions[c.slot(key)]
	return c.one == nil && e != nil && e.Subscription == sub
}

// Listening returns the session that delivers messages to this client as a holder, at the node that has the key; or the
// zero Session. In a cluster every node passes these messages on.
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

// drop ends the subscription of a slot, unless it has a user again.
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
		c.unsubscribe(n.now(), slot) // the connection stays open
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
	if c.left(s, slot) != nil { // the slot moved before e.leave was set, so follow could not call it
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

// follow moves the subscriptions to the nodes that now have their slots. The caller holds c.mu.
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

// watchEvery is how often watch asks the nodes with waiters.
const watchEvery = 500 * time.Millisecond

// watch asks each node with waiters whether it is a master. If a node does not answer or is
// no master, watch looks for new owners of its slots. It runs until there are no
// subscriptions.
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

// leads asks a server whether it is a master. If the server refuses to answer, for example
// because the user lacks the right, it counts as a master.
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

// Listen subscribes to a single server. A Cluster subscribes to each node when it connects to it.
func (c *Cluster) Listen() {
	if c.one != nil {
		c.one.Listen()
	}
}

// Hush ends the subscriptions of all Servers; see Server.Hush.
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
