// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/nodewire"
)

var _ nodewire.QueueReader = (*redisNode)(nil)

// queues returns who waits for names, as far as the node tells. It asks only for those that somebody
// waits for: the ordinary name costs nothing.
func (m *member) queues(ctx context.Context, names []string, states []nodewire.State) [][]*nodewire.Place {
	all := make([][]*nodewire.Place, len(names))
	r, ok := m.Node.(nodewire.QueueReader)
	var some []string
	var at []int
	for i, s := range states {
		if ok && s.Waiters > 0 {
			some, at = append(some, names[i]), append(at, i)
		}
	}
	if len(some) == 0 {
		return all
	}
	queues, err := r.Queues(ctx, some)
	if err != nil || len(queues) != len(some) {
		return all // another node may tell
	}
	for k, i := range at {
		all[i] = queues[k]
	}
	return all
}

// waitersOf describes those who are in the queue of a name at any node, in the order that all nodes have.
// A holder may still be in the queues of nodes that it has not asked.
func waitersOf(queue []*nodewire.Place, holders []driver.Held) (all []driver.Waiter) {
	slices.SortStableFunc(queue, func(a, b *nodewire.Place) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Lease, b.Lease))
	})
	known := make(map[string]bool)
	for _, h := range holders {
		known[h.Lease] = true
	}
	for _, p := range queue {
		w := driver.Waiter{}
		w.Lease, _, _ = strings.Cut(p.Lease, ".")
		if known[w.Lease] || p.Record == "" { // its place is over
			continue
		}
		known[w.Lease] = true
		r := storekit.ReadRecord(p.Record)
		w.Holder, w.Why = r.Holder, r.Why
		all = append(all, w)
	}
	return all
}

// Queues implements QueueReader.
func (n *redisNode) Queues(ctx context.Context, names []string) ([][]*nodewire.Place, error) {
	queues := make([]string, len(names))
	for i, name := range names {
		queues[i] = n.layout.Beside(n.key(name)) + waitersSuffix
	}
	replies, err := n.server.Read(ctx, queues, func(b rueidis.Builder, queue string) []rueidis.Completed {
		return []rueidis.Completed{b.Zrange().Key(queue).Min("0").Max("-1").Withscores().Build()}
	})
	if err != nil {
		return nil, err
	}
	all := make([][]*nodewire.Place, len(names))
	records := make(map[string][]string) // the keys, by the queue that somebody is in
	var used []string
	for i, r := range replies {
		members, _ := r[0].AsZScores()
		for _, m := range members {
			all[i] = append(all[i], &nodewire.Place{Name: names[i], Lease: m.Member, Place: uint64(m.Score)})
			records[queues[i]] = append(records[queues[i]], queues[i]+":"+m.Member)
		}
		if len(members) > 0 {
			used = append(used, queues[i])
		}
	}
	if len(used) == 0 {
		return all, nil
	}
	replies, err = n.server.Read(ctx, used, func(b rueidis.Builder, queue string) []rueidis.Completed {
		return []rueidis.Completed{b.Mget().Key(records[queue]...).Build()}
	})
	if err != nil {
		return nil, err
	}
	for k, r := range replies {
		values, _ := r[0].AsStrSlice() // one for each key
		places := all[slices.Index(queues, used[k])]
		for i, value := range values {
			// CLIENT SEQ TOKEN TTL SET RECORD, as enqueue.lua says.
			if parts := strings.SplitN(value, " ", 6); len(parts) == 6 {
				places[i].Record = parts[5]
			}
		}
	}
	return all, nil
}
