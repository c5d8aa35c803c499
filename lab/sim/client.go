// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
)

// client is one process that uses the lock.
type client struct {
	w      *world
	id     int
	locks  *pawl.Client
	random *rand.Rand
	others uint64         // how many other goroutines it has had
	late   sync.WaitGroup // writes that are under way to the resource
}

// next starts another goroutine of the client, which waits for the lease that this one has.
// wait returns when the other goroutine is done.
func (c *client) next(s Step) (wait func()) {
	c.others++
	o := &client{w: c.w, id: c.id, locks: c.locks, random: rand.New(rand.NewPCG(c.w.plan.Seed, c.others<<16|uint64(c.id)))}
	var done sync.WaitGroup
	done.Go(func() { o.follow(Script{{Patience: s.Work + c.w.plan.TTL, Work: s.Next, Writes: 1}}) })
	return done.Wait
}

func (c *client) lane() string { return ClientLane(c.id) }

func (c *client) tell(k Kind, l *pawl.Lease, text string) {
	e := Event{Lane: c.lane(), Kind: k, Client: c.id, Text: text}
	if l != nil {
		e.Lease, e.Token = c.w.number(l.ID()), uint64(l.Token())
	}
	c.w.rec.add(e)
}

// observer records what the client learns about its leases.
func (c *client) observer() pawl.Observer {
	tell := func(k Kind) func(pawl.Event) {
		return func(e pawl.Event) {
			text := ""
			if e.Err != nil {
				text = why(e.Err)
			}
			c.w.rec.add(Event{Lane: c.lane(), Kind: k, Client: c.id, Lease: c.w.number(e.Lease), Token: uint64(e.Token), Text: text})
		}
	}
	return pawl.Observer{Renewed: tell(Renewed), Lost: tell(Ended)}
}

// why says in a few words what err is about. The text of err may depend on chance: if two
// things fail in the same instant, err may name either.
func why(err error) string {
	var lost *pawl.LostError
	switch {
	case errors.As(err, &lost):
		return string(lost.Reason)
	case errors.Is(err, context.DeadlineExceeded):
		return "out of patience"
	case errors.Is(err, pawl.ErrHeld):
		return "held by somebody else"
	case errors.Is(err, pawl.ErrUnavailable), errors.Is(err, pawl.ErrUncertain):
		return "too few nodes answer"
	}
	return err.Error()
}

// follow does what the script says.
func (c *client) follow(s Script) {
	for _, step := range s {
		// A client that does not get a lease goes on with the next step.
		_ = c.step(step)
	}
	c.late.Wait()
}

// sleep sleeps for d, and then for as long as the client stands still.
func (c *client) sleep(d time.Duration) {
	time.Sleep(d)
	for {
		left := c.w.paused(c.id, c.w.now())
		if left == 0 {
			return
		}
		time.Sleep(left)
	}
}

func (c *client) step(s Step) error {
	c.sleep(s.Wait)
	ctx, cancel := context.WithTimeout(context.Background(), s.Patience)
	defer cancel()
	var opts []pawl.Option
	if s.NoRenew || s.Abandon { // the client would renew an abandoned lease for ever
		opts = append(opts, pawl.NoRenew())
	}
	ask := c.locks.Acquire
	if s.Try {
		ask = c.locks.TryAcquire
	}
	if s.Shared {
		opts = append(opts, pawl.Shared())
	}
	before := c.w.watch.largest()
	lease, err := ask(ctx, lockName, opts...)
	if err != nil {
		c.tell(Failed, nil, why(err))
		if s.Must {
			c.w.rec.violated(Stuck, "client %d waited for %v in vain", c.id, s.Patience)
		}
		return err
	}
	c.w.watch.granted(c, lease, s.Shared, before)
	if s.Next > 0 {
		defer c.next(s)()
	}
	c.sleep(0)
	c.work(s, lease)
	if s.Abandon {
		return nil
	}
	c.w.watch.ended(lease)
	c.tell(Released, lease, "")
	c.w.released(lease)
	ctx, cancel = context.WithTimeout(context.Background(), c.w.plan.TTL)
	defer cancel()
	// If it fails, the client releases in the background.
	_ = lease.Release(ctx)
	return nil
}

// work writes to the resource now and then, while the client trusts the lease. The client
// sends each write right after it has checked the lease, unless it stops in between.
func (c *client) work(s Step, lease *pawl.Lease) {
	pause := s.Work / time.Duration(s.Writes+1)
	for i := range s.Writes {
		c.sleep(pause)
		if lease.Err() != nil {
			return
		}
		c.tell(Writes, lease, "")
		w := write{client: c.id, lease: c.w.number(lease.ID()), token: uint64(lease.Token())}
		delay := between(c.random, 50*time.Microsecond, 500*time.Microsecond)
		if i == s.Writes-1 && s.Stall > 0 {
			c.w.stop(c.id, s.Stall)
		}
		delay += c.w.paused(c.id, c.w.now()+delay)
		c.late.Add(1)
		time.AfterFunc(delay, func() {
			defer c.late.Done()
			c.w.resource.take(w)
		})
	}
	c.sleep(pause)
}

func (c *client) close() {
	if err := c.locks.Close(); err != nil {
		c.w.rec.violated(LeftBehind, "client %d could not give back what it had: %v", c.id, err)
	}
}
