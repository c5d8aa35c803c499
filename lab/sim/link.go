// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// link is the network between one client and one node. The client sees it as the node:
// link implements nodewire.Node.
type link struct {
	w      *world
	client int
	node   *node
	told   func(nodewire.Message)
}

var _ nodewire.Node = (*link)(nil)

var errRefused = fmt.Errorf("%w: connection refused", driver.ErrUnavailable)

// fate is what happens to one message.
type fate struct {
	delay time.Duration
	lost  bool
	twice time.Duration // if positive, the message comes again this much later
	late  time.Duration // how long after its context the request ends
}

// fate draws what happens to a message that is sent now. The fate depends only on the
// seed, the time, the link, and what, which is the kind of message and its attempt. So it does
// not matter which goroutine sends first: two messages that agree in all this have the same fate.
func (l *link) fate(what uint64) fate {
	now := l.w.now()
	r := rand.New(rand.NewPCG(l.w.plan.Seed^uint64(now)<<8, what<<16|uint64(l.client)<<8|uint64(l.node.id)))
	// 0.1 to 1 ms, and no two in the same nanosecond.
	f := fate{
		delay: l.w.paused(l.client, now) + between(r, 100*time.Microsecond, time.Millisecond),
		late:  between(r, time.Microsecond, 100*time.Microsecond),
	}
	for i := range l.w.plan.Faults {
		fault := &l.w.plan.Faults[i]
		if !l.w.begun || !fault.active(now, l.client, l.node.id) {
			continue
		}
		switch fault.What {
		case Cut:
			f.lost = true
		case Lose:
			f.lost = f.lost || r.Float64() < fault.Chance
		case Repeat:
			if r.Float64() < fault.Chance {
				f.twice = between(r, time.Microsecond, l.w.plan.TTL/4)
			}
		case Slow:
			f.delay += between(r, fault.D/2, fault.D)
		}
	}
	return f
}

// carry carries a request to the node, does step there, once or twice, and carries the
// reply back. If it returns an error of ctx, the node may have done step, may do it later, or
// may never do it.
func (l *link) carry(ctx context.Context, what uint64, step func()) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	out := l.fate(what)
	arrived := make(chan error, 1)
	once := func() (fate, error) {
		l.node.mu.Lock()
		defer l.node.mu.Unlock()
		if l.node.down {
			return fate{}, errRefused
		}
		step()
		return l.fate(what + 128), nil
	}
	if !out.lost {
		if out.twice > 0 {
			time.AfterFunc(out.delay+out.twice, func() { once() })
		}
		time.AfterFunc(out.delay, func() {
			back, err := once()
			if !back.lost {
				time.AfterFunc(back.delay, func() { arrived <- err })
			}
		})
	}
	select {
	case err := <-arrived:
		return err
	case <-ctx.Done():
		// The client gives up the requests of a round together. If all ended in the same instant,
		// chance would decide what the client does first.
		time.Sleep(out.late)
		return ctx.Err()
	}
}

// message carries a message from the node to the client. node.mu is held.
func (l *link) message(m nodewire.Message) {
	if f := l.fate(9 + l.w.attempt(m.Lease)); !f.lost {
		time.AfterFunc(f.delay, func() { l.told(m) })
		if f.twice > 0 {
			time.AfterFunc(f.delay+f.twice, func() { l.told(m) })
		}
	}
}

// Tell implements nodewire.Node. The link has no messages about broken leases.
func (l *link) Tell(f func(nodewire.Message)) { l.told = f }

// Addr implements nodewire.Node.
func (l *link) Addr() string { return l.node.lane }

// Propose implements nodewire.Node.
func (l *link) Propose(ctx context.Context, p nodewire.Proposal) (nodewire.Vote, error) {
	l.w.asked(l.client, p.Lease)
	votes := make(chan nodewire.Vote, 2)
	err := l.carry(ctx, 1+uint64(p.Mode)+l.w.attempt(p.Lease), func() {
		votes <- l.node.propose(l.client, p)
	})
	if err != nil {
		return nodewire.Vote{}, err
	}
	return <-votes, nil
}

// End implements nodewire.Node.
func (l *link) End(ctx context.Context, e nodewire.Ending) (had, next bool, err error) {
	if l.w.plan.Off.Ending && !l.w.watch.knows(e.Lease) {
		return false, false, nil
	}
	l.w.asked(l.client, e.Lease) // the request of e.Lease may be sent later in this instant
	done := make(chan [2]bool, 2)
	what := uint64(4)
	if e.Next > 0 {
		what = 3 // in the same instant the client may send an ending that it owes, which hands nothing over
	}
	err = l.carry(ctx, what+l.w.attempt(e.Lease), func() {
		had, next := l.node.end(l.client, e)
		done <- [2]bool{had, next}
	})
	if err != nil {
		return false, false, err
	}
	d := <-done
	return d[0], d[1], nil
}

// Enqueue implements nodewire.Node.
func (l *link) Enqueue(ctx context.Context, p nodewire.Place) (nodewire.State, error) {
	l.w.asked(l.client, p.Lease)
	states := make(chan nodewire.State, 2)
	if err := l.carry(ctx, 11+l.w.attempt(p.Lease), func() { states <- l.node.enqueue(p) }); err != nil {
		return nodewire.State{}, err
	}
	return <-states, nil
}

// Read implements nodewire.Node.
func (l *link) Read(ctx context.Context, names []string) ([]nodewire.State, error) {
	states := make(chan []nodewire.State, 2)
	if err := l.carry(ctx, 5, func() { states <- l.node.model.Read(names) }); err != nil {
		return nil, err
	}
	return <-states, nil
}

// List implements nodewire.Node.
func (l *link) List(ctx context.Context, prefix string) ([]string, error) {
	names := make(chan []string, 2)
	if err := l.carry(ctx, 6, func() { names <- l.node.model.List(prefix) }); err != nil {
		return nil, err
	}
	return <-names, nil
}

// Status implements nodewire.Node.
func (l *link) Status(ctx context.Context) (nodewire.Status, error) {
	s := make(chan nodewire.Status, 2)
	if err := l.carry(ctx, 8, func() { s <- l.node.model.Status(l.Addr()) }); err != nil {
		return nodewire.Status{}, err
	}
	return <-s, nil
}

// Close implements nodewire.Node.
func (l *link) Close() error { return nil }
