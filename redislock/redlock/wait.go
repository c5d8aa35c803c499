// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Who waits is told by each node that a lock has ended, lets a random time pass if
// others wait too, looks whether a quorum is free, and only then asks: to ask
// while somebody holds the name would take the nodes that the holder has lost and
// wants back. It also looks when the locks of a quorum must have expired, and
// every lookEvery, in case that news were lost.

// Acquire implements driver.Queuer. There is no queue: who comes first after a
// release gets the name. An outage is borne once a quorum of nodes has been heard of.
func (d *Driver) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if err := d.usable(ctx, req); err != nil {
		return nil, err
	}
	s := d.search(req)
	g, f := s.ask(ctx)
	switch {
	case g != nil:
		return g, nil
	case f.kind == final, f.kind == silent:
		return nil, f.err
	}
	wake := make(chan struct{}, 1)
	for _, m := range d.members {
		defer m.Listen(req.Name, func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		})()
	}
	for splits := 0; ; {
		if f.kind == split {
			splits++
		} else {
			splits = 0
		}
		if err := s.rest(ctx, f, splits, wake); err != nil {
			return nil, err
		}
		if f = s.look(ctx); f == nil {
			g, f = s.ask(ctx)
		}
		switch {
		case g != nil:
			return g, nil
		case f.kind == final, f.kind == silent && !s.heard:
			return nil, f.err
		}
	}
}

// rest waits until it is time to look again.
func (s *search) rest(ctx context.Context, f *failure, splits int, wake chan struct{}) error {
	d, ttl := s.d, s.req.TTL
	if splits > 0 {
		return d.sleep(ctx, d.lull(splits, f.waiters, ttl))
	}
	if _, err := d.await(ctx, wake, min(f.after, d.jitter(lookEvery))); err != nil {
		return err
	}
	if err := d.sleep(ctx, d.lull(0, f.waiters, ttl)); err != nil {
		return err
	}
	select {
	case <-wake: // the other nodes' news of the same release
	default:
	}
	return nil
}

// look returns nil if a quorum of nodes is free.
func (s *search) look(ctx context.Context) *failure {
	d := s.d
	d.looks.Add(1)
	answers := d.read([]string{s.req.Name}, d.timeout(s.req.TTL))
	f := &failure{kind: held}
	var waits []time.Duration // of nodes that are not free
	var failed misses
	free := 0
	for free+len(waits) < len(d.members) && len(waits)-len(failed) <= len(d.members)-d.quorum {
		select {
		case a := <-answers:
			if a.err != nil {
				failed.add(d.members[a.node], a.err)
				waits = append(waits, lookEvery)
				continue
			}
			l := a.locks[0]
			f.waiters = max(f.waiters, l.Waiters)
			s.floor = max(s.floor, l.Floor)
			if shut := s.closed[a.node].Sub(driver.Now()); l.Lease != "" {
				waits = append(waits, l.wait())
			} else if shut > 0 {
				// It would give nothing. To ask all the same would free what the others
				// give, and that would wake all who wait, ourselves too.
				waits = append(waits, shut)
			} else if free++; free >= d.quorum {
				return nil
			}
		case <-ctx.Done():
			return &failure{kind: final, err: ctx.Err()}
		case <-d.ctx.Done():
			return &failure{kind: final, err: unavailable(errClosed)}
		}
	}
	f.after = d.quorumth(waits)
	s.heard = s.heard || free+len(waits)-len(failed) >= d.quorum
	if len(failed) > len(d.members)-d.quorum {
		f.kind, f.err = silent, failed.as(driver.ErrUnavailable, d)
	}
	return f
}
