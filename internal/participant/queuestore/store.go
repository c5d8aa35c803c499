// SPDX-License-Identifier: Apache-2.0

package queuestore

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Open returns a new participant.
func (s *Server) Open() driver.Store { return &store{server: s} }

// store is the wire of one participant to a Server.
type store struct {
	driver.Basic
	server *Server
	tell   func(driver.Event)
}

// Caps promises nothing that the server cannot keep: it ends with its process. Look is 0, as no event is lost here.
// Where a message can be lost it is a few seconds: a waiter looks as often though it hears nothing.
func (s *store) Caps() driver.Caps {
	return driver.Caps{Guarantees: driver.Guarantees{Fencing: true, FIFO: true, Expiry: true}, Queue: true, Shows: true, LongerTTL: true}
}

// Listen is called once, before any request.
func (s *store) Listen(f func(driver.Event)) { s.tell = f }

// Ask grants the name if it is free. It does not overtake the queue: a name that is free has none, see free.
func (s *store) Ask(ctx context.Context, req *driver.Request) (ans driver.Answer, err error) {
	err = s.server.update(ctx, req.Name, func(n *name, now driver.Instant) error {
		switch {
		case n.holder == nil:
			n.grant(&entry{of: s, req: *req}, now)
			ans = n.holder.answer(s.server)
			return nil
		case n.holds(req.Lease): // the request is repeated, or its grant was told already
			ans = n.holder.answer(s.server)
			return nil
		}
		ans.Free = n.holder.ends().Sub(now)
		if !req.Queue {
			ans.Holders, ans.Rank = n.info(req.Name).Holders, len(n.queue)
			return nil
		}
		if ans.Rank = n.place(req.Lease); ans.Rank < 0 {
			ans.Rank = len(n.queue)
			n.queue = append(n.queue, &entry{of: s, req: *req, at: time.Now()})
		}
		ans.Session = s.server // events about the name arrive
		return nil
	})
	return ans, err
}

// Renew never shortens a lease, and never revives one that has ended.
func (s *store) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (r driver.Renewal, err error) {
	err = s.server.update(ctx, l.Name, func(n *name, now driver.Instant) error {
		if !n.holds(l.Lease) {
			return n.lost(l.Lease)
		}
		r.Since = now
		if r.Kept = now.Add(ttl) < n.holder.ends(); !r.Kept {
			n.holder.since, n.holder.ttl = now, ttl
		}
		return nil
	})
	return r, err
}

// End compares before it deletes. It works although ctx has ended, so that nothing stays.
func (s *store) End(ctx context.Context, l driver.Ref, _ driver.End) (found bool, err error) {
	err = s.server.update(context.WithoutCancel(ctx), l.Name, func(n *name, now driver.Instant) error {
		i := n.place(l.Lease)
		switch {
		case n.holds(l.Lease):
			s.server.free(n, now, nil)
		case i >= 0:
			n.queue = slices.Delete(n.queue, i, i+1)
			n.look(now)
		default:
			return nil
		}
		found = true
		return nil
	})
	return found, err
}

// Inspect describes a name.
func (s *store) Inspect(ctx context.Context, of string) (info *driver.Info, err error) {
	err = s.server.update(ctx, of, func(n *name, _ driver.Instant) error { info = n.info(of); return nil })
	return info, err
}

// List describes the names that have a holder.
func (s *store) List(ctx context.Context, prefix string) (all []*driver.Info, err error) {
	s.server.mu.Lock()
	names := slices.Sorted(maps.Keys(s.server.names))
	s.server.mu.Unlock()
	for _, of := range names {
		if !strings.HasPrefix(of, prefix) {
			continue
		}
		info, err := s.Inspect(ctx, of)
		if err != nil {
			return nil, err
		}
		if len(info.Holders) > 0 {
			all = append(all, info)
		}
	}
	return all, nil
}

// Break ends the lease of another participant, which hears who has done so, and why.
func (s *store) Break(ctx context.Context, of, lease string, by *driver.Holder, why string) error {
	return s.server.update(ctx, of, func(n *name, now driver.Instant) error {
		switch {
		case n.holder == nil:
			return driver.ErrReleased
		case !n.holds(lease):
			return &driver.HeldError{Info: n.info(of)}
		}
		n.broken = n.holder
		s.server.free(n, now, &driver.LostError{Reason: driver.Broken, By: by, Why: why})
		return nil
	})
}
