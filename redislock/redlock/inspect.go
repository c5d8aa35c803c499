// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

const (
	batch = 250 // names asked for at a time

	// lookTimeout is how long a node may take to answer a request that only reads.
	lookTimeout = time.Second
)

// reading is the answer of one node to a request for states.
type reading struct {
	node   int
	states []nodewire.State
	err    error
}

// read asks all nodes for the states of names, and, with queues, for the queues. The
// channel gets one answer from each node.
func (d *store) read(names []string, ttl time.Duration, queues bool) <-chan reading {
	answers := make(chan reading, len(d.members))
	all := d.together(len(d.members), ttl, false)
	for i, m := range d.members {
		send(m, all, func(ctx context.Context) (r reading, err error) {
			began := driver.Now()
			r.states, err = m.Read(ctx, names, queues)
			if err == nil && len(r.states) != len(names) {
				err = fmt.Errorf("%s: %d answers to %d questions", m.Addr(), len(r.states), len(names))
			}
			if !queues { // queues take several requests
				m.timed(began, &err)
			}
			return r, err
		}, func(r reading, err error) {
			r.node, r.err = i, err
			answers <- r
		})
	}
	return answers
}

// view returns for each of names its states at all nodes that answer.
func (d *store) view(ctx context.Context, names []string) (views [][]nodewire.State, err error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	views = make([][]nodewire.State, len(names))
	err = awaitNodes(ctx, d, d.read(names, d.ttl, true), func(r reading) (int, error) {
		if r.err == nil {
			for i, s := range r.states {
				views[i] = append(views[i], s)
			}
		}
		return r.node, r.err
	})
	if err != nil {
		return nil, err
	}
	return views, nil
}

// awaitNodes calls got with the answer of each node. It returns when all nodes have answered, or when a quorum has and the
// grace for the others is over. If fewer than a quorum answer, or ctx ends, it returns an error.
func awaitNodes[A any](ctx context.Context, d *store, answers <-chan A, got func(A) (node int, err error)) error {
	var failed misses
	var enough <-chan time.Time
	heard, alive := make([]bool, len(d.members)), 0
	for range d.members {
		select {
		case a := <-answers:
			node, err := got(a)
			if heard[node] = true; err != nil {
				failed.add(d.members[node], err)
			} else if alive++; alive == d.quorum {
				enough = d.behind(heard)
			}
		case <-enough:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return d.heard(failed)
}

// heard returns an error unless a quorum has answered. The error is ErrUnavailable, because
// the request records nothing.
func (d *store) heard(failed misses) error {
	if len(d.members)-len(failed) < d.quorum {
		return failed.as(driver.ErrUnavailable, d, 0)
	}
	return nil
}

// describe makes the Info of a name. Its holder is the lease with a quorum. If no lease has
// one, it is the lease with the most nodes, unless a quorum of nodes is free.
func (d *store) describe(name string, states []nodewire.State) *driver.Info {
	i := d.info(name, states)
	free := 0
	var queue []nodewire.Place
	for _, s := range states {
		queue = append(queue, s.Queue...)
		if len(s.Locks) == 0 {
			free++
		}
	}
	if largest(states).n < d.quorum && free >= d.quorum {
		i.Holders = i.Holders[:0]
	}
	i.Waiters = waitersOf(queue, i.Holders)
	return i
}

// Inspect implements driver.Store. It shows the waiters in the queues, which are waiters for an
// exclusive lease. It shows no waiting readers, and not since when a client waits.
func (d *store) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	views, err := d.view(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	return d.describe(name, views[0]), nil
}

// List implements driver.Store.
func (d *store) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	names, err := d.names(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var infos []*driver.Info
	for part := range slices.Chunk(names, batch) {
		views, err := d.view(ctx, part)
		if err != nil {
			return nil, err
		}
		for i, name := range part {
			if info := d.describe(name, views[i]); len(info.Holders)+len(info.Waiters) > 0 {
				infos = append(infos, info)
			}
		}
	}
	slices.SortFunc(infos, func(a, b *driver.Info) int { return cmp.Compare(a.Name, b.Name) })
	return infos, nil
}

// names returns the names that begin with prefix and are locked at some node.
func (d *store) names(ctx context.Context, prefix string) ([]string, error) {
	type page struct {
		node  int
		names []string
		err   error
	}
	pages := make(chan page, len(d.members))
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, m := range d.members {
		if !d.background(func() {
			names, err := m.List(reading, prefix)
			pages <- page{i, names, err}
		}) {
			return nil, unavailable(errClosed)
		}
	}
	var all []string
	err := awaitNodes(ctx, d, pages, func(p page) (int, error) { // a name that is held is held at a node of any quorum
		all = append(all, p.names...)
		return p.node, p.err
	})
	slices.Sort(all)
	return slices.Compact(all), err
}

// Break implements driver.Store. The holder learns of it from a node's message, or
// at its next renewal.
func (d *store) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	views, err := d.view(ctx, []string{name})
	if err != nil {
		return err
	}
	states := views[0]
	all := byLease(states)
	taken := slices.IndexFunc(all, func(l counted) bool { return heldBy(l.Lock, time.Time{}).Lease == lease })
	// The lease may have a quorum although more of the nodes that answered have another lease: a lease
	// that a client is still asking for, or readers beside a writer.
	info := d.describe(name, states)
	held := slices.ContainsFunc(info.Holders, func(h driver.Held) bool { return h.Lease == lease })
	switch {
	case held || taken >= 0 && d.mayHaveQuorum(all[taken], states):
	case len(info.Holders) == 0:
		return driver.ErrReleased
	default:
		return &driver.HeldError{Info: info}
	}
	c := d.claim(name, all[taken].Lease, "")
	c.ttl, c.held = d.maxTTL, true
	return c.awaitBreak(ctx, c.end(newRecord(by, why), 0))
}

// awaitBreak waits until a quorum has answered and one of these nodes has had the lease, or
// until all nodes have answered. The holder hears of the break from the first node. It may
// release the lease at the other nodes before they carry out the break. So one node that has
// had the lease is enough: it has told the holder who broke the lease.
func (c *claim) awaitBreak(ctx context.Context, answers <-chan ended) error {
	answered, had := 0, false
	var failed misses
	for range c.d.members {
		select {
		case a := <-answers:
			if a.err != nil {
				failed.add(c.d.members[a.node], a.err)
				continue
			}
			answered++
			had = had || a.had
			if had && answered >= c.d.quorum {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if answered < c.d.quorum {
		return unheard(failed.err(c.d, 0))
	}
	return driver.ErrReleased // the lease ended in between
}
