// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

// try makes the node, and deletes it again if others hold the name.
func (g *grant) try(ctx context.Context, req *driver.Request) error {
	l, i, err := g.enter(ctx, req)
	if err == nil && (i >= l.holders() || g.repeated(l[:i])) {
		err = g.refusal(ctx, req, l)
	}
	if err != nil {
		return g.leave(ctx, err)
	}
	return g.leave(ctx, g.take(ctx, req, true))
}

// leave returns err. If that is an answer, which leaves nothing open, the node is
// deleted before. Nil stays nil.
func (g *grant) leave(ctx context.Context, err error) error {
	if !errors.Is(err, driver.ErrHeld) && !errors.Is(err, errOverflow) && !errors.Is(err, errEpochs) && !errors.Is(err, errTooSlow) && !errors.Is(err, errBack) && !isSlotsError(err) {
		return err
	}
	g.s.mu.Lock()
	g.leaving = true
	g.s.mu.Unlock()
	if _, fail := g.remove(ctx); fail != nil {
		return fail
	}
	g.n.gone = true
	return err
}

// refusal returns the error that tells who holds the name.
func (g *grant) refusal(ctx context.Context, req *driver.Request, l line) error {
	holders := l[:l.holders()]
	if err := slotsError(l, g.kind); err != nil && !g.repeated(holders) {
		return err
	}
	infos, err := g.s.readAll(ctx, g.n.dir, holders)
	if err != nil {
		return err
	}
	info := &driver.Info{Name: req.Name, Holders: []driver.Held{}}
	for i, c := range infos {
		switch {
		case c.stat == nil: // it has left meanwhile
		case readRecord(holders[i], c.data).Young:
			info.Waiters = append(info.Waiters, waiter(holders[i], c.data, c.stat))
		default:
			h := held(holders[i], c.data, c.stat)
			info.Holders = append(info.Holders, h)
			info.Token = max(info.Token, h.Token)
		}
	}
	return &driver.HeldError{Info: info}
}

// repeated reports whether one of those before has been made for the same attempt.
// There must not be two, of which only one would be released.
func (g *grant) repeated(before line) bool {
	return slices.ContainsFunc(before, func(c child) bool {
		return strings.HasPrefix(c.name, g.n.prefix) && c.name != g.n.name
	})
}

// slotsError returns a *driver.SlotsError if slots of another number are held.
func slotsError(l line, k kind) error {
	if k.slots > 0 && l[0].kind.slots > 0 && l[0].kind.slots != k.slots {
		return &driver.SlotsError{Held: l[0].kind.slots, Wanted: k.slots}
	}
	return nil
}
