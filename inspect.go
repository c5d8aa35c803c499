// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Inspect describes name: who holds it, who waits for it. A name that nobody holds is
// no error. The answer is for people and their tools: it may be out of date by the time
// it is read.
func (c *Client) Inspect(ctx context.Context, name string) (*Info, error) {
	ctx = present(ctx)
	err := c.usable(ctx)
	if err == nil {
		err = driver.CheckName(name)
	}
	if err != nil {
		return nil, c.opError(ctx, "inspect", driver.Shorten(name), err)
	}
	info, err := c.store.Inspect(ctx, name)
	if err != nil {
		return nil, c.opError(ctx, "inspect", name, err)
	}
	info.Waiters = append(info.Waiters, c.waiters(name)...)
	c.showIdle(info)
	return info, nil
}

// waiters describes the waiters of this client that have not asked the store.
func (c *Client) waiters(name string) (all []Waiter) {
	now, wall := driver.Now(), time.Now().Round(0)
	for _, w := range c.inLine(name) {
		all = append(all, Waiter{
			Holder: *c.holder, Lease: w.lease, Since: wall.Add(w.set.began.Sub(now)), Why: w.set.why, Shared: w.set.shared, Slots: w.set.slots,
			Holds: slices.Clone(w.holds), Local: true,
		})
	}
	return all
}

func (c *Client) inLine(name string) (all []*waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ln := c.lines[name]; ln != nil {
		for p := range ln.All() {
			all = append(all, p.Of)
		}
	}
	return all
}

// List describes the names that have a holder or a waiter and begin with prefix, sorted
// by name. It leaves out waiters that only this client knows; Inspect has them. Together with
// an error it returns the names that it could read, if any.
func (c *Client) List(ctx context.Context, prefix string) ([]*Info, error) {
	ctx = present(ctx)
	if err := c.usable(ctx); err != nil {
		return nil, c.opError(ctx, "list", driver.Shorten(prefix), err)
	}
	infos, err := c.store.List(ctx, prefix)
	for _, info := range infos {
		c.showIdle(info)
	}
	if err != nil {
		return infos, c.opError(ctx, "list", driver.Shorten(prefix), err)
	}
	return infos, nil
}

// Store describes the store itself: the longest TTL on which its clients have agreed,
// and whether it grants nothing for a while. It changes nothing.
func (c *Client) Store(ctx context.Context) (*StoreInfo, error) {
	ctx = present(ctx)
	if err := c.usable(ctx); err != nil {
		return nil, c.opError(ctx, "describe", "", err)
	}
	info, err := c.store.Describe(ctx)
	if err != nil {
		return nil, c.opError(ctx, "describe", "", err)
	}
	return info, nil
}

// Break ends the lease with the given id, which somebody else holds on name. The
// victim's lease is lost, and its LostError says who broke it and why. If that lease
// does not hold the name, Break changes nothing and returns ErrHeld, with the present
// holder, or ErrReleased if there is none. It cannot end a transaction that the lease
// guards: ErrHeld then tells of that, too, in Held.Transaction.
//
// On a store where only the holder itself can let go, as with files, Break asks the
// holder to let go, and waits until it has or ctx ends. So a goroutine must not break a
// lease there that is released only after the goroutine has returned.
func (c *Client) Break(ctx context.Context, name, lease, why string) error {
	ctx = present(ctx)
	err := c.usable(ctx)
	switch {
	case err != nil:
	case lease == "":
		err = errors.New("no lease id: take it from Inspect, so that no other lease is broken")
	case len(why) > maxWhy:
		err = fmt.Errorf("the reason has %d bytes: use at most %d", len(why), maxWhy)
	default:
		err = driver.CheckName(name)
	}
	if err != nil {
		return c.opError(ctx, "break", driver.Shorten(name), err)
	}
	if err := c.store.Break(ctx, name, lease, c.holder, why); err != nil && err == ctx.Err() {
		return c.opError(ctx, "break", name, err)
	} else if err != nil {
		// Unlike opError, it keeps the store's error after the end of ctx: that may
		// say why the victim has not let go.
		return &Error{"break", name, err}
	}
	c.observer.broken(name, lease, why)
	return nil
}

// usable connects to the store.
func (c *Client) usable(ctx context.Context) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return c.ready(ctx)
}
