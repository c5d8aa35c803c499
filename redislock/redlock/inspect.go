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

// view returns for each of names its states at all nodes that answer.
func (d *store) view(ctx context.Context, names []string) (views [][]nodewire.State, err error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	views = make([][]nodewire.State, len(names))
	replies := ask(d, d.every, d.ttl, false, func(ctx context.Context, node int) ([]nodewire.State, error) {
		states, err := d.members[node].Read(ctx, names)
		if err == nil && len(states) != len(names) {
			err = fmt.Errorf("%d answers to %d questions", len(states), len(names))
		}
		return states, err
	}, func(reply[[]nodewire.State]) {})
	err = gatherAll(ctx, d, replies, func(_ int, states []nodewire.State) {
		for i, s := range states {
			views[i] = append(views[i], s)
		}
	})
	if err != nil {
		return nil, err
	}
	return views, nil
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
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	pages := each(d, func(m *member) ([]string, error) { return m.List(reading, prefix) })
	var all []string
	err := gatherAll(ctx, d, pages, func(_ int, page []string) { all = append(all, page...) }) // a name that is held is held at a node of any quorum
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
func (c *claim) awaitBreak(ctx context.Context, answers <-chan reply[ended]) error {
	answered, had := 0, false
	var failed misses
	err := gather(ctx, c.d, nil, answers, nil, func(a reply[ended]) bool {
		if a.err != nil {
			failed.add(c.d.members[a.node], a.err)
			return false
		}
		answered++
		had = had || a.answer.had
		return had && answered >= c.d.quorum
	})
	if err != nil || had && answered >= c.d.quorum {
		return err
	}
	if answered < c.d.quorum {
		return unheard(failed.err(c.d, 0))
	}
	return driver.ErrReleased // the lease ended in between
}
