// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"

	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

const samples = 16 // how many slots of each master State asks about

// State asks all masters about some of their slots, and returns the longest quarantine. Some
// slots are enough, as the epochs of a master begin at about the same time. If some of these
// slots have a record, State ignores those without one: the client that made the records ended
// before it came to them. The first user of such a slot has to wait, but this quarantine is
// not the store's.
func (c *Cluster) State(ctx context.Context) (epoch.State, error) {
	servers, err := c.Servers(ctx)
	if err != nil {
		return epoch.State{}, conn.NotBound(ctx, err).Err
	}
	of := make([]epoch.State, len(servers))
	err = each(servers, func(i int, s *epoch.Server) (err error) {
		of[i], err = c.stateOf(ctx, s)
		return err
	})
	return longest(of), err
}

// stateOf is State for one master.
func (c *Cluster) stateOf(ctx context.Context, s *epoch.Server) (epoch.State, error) {
	slots := c.slotsOf(s, 0)
	of := make([]epoch.State, min(samples, len(slots)))
	err := each(of, func(i int, _ epoch.State) (err error) {
		key := c.epochKey(slots[i*len(slots)/samples%len(slots)])
		of[i], err = s.State(ctx, []string{key, noKey(key)}, false)
		return err
	})
	recorded := slices.DeleteFunc(slices.Clone(of), func(is epoch.State) bool { return is.TTL == 0 })
	if len(recorded) > 0 {
		of = recorded
	}
	return longest(of), err
}

// longest returns the longest quarantine of some states, and the Term that counts.
func longest(of []epoch.State) (all epoch.State) {
	for _, is := range of {
		all.Run, all.Closed = is.Run, max(all.Closed, is.Closed)
		if all.Term.Before(is.Term) {
			all.Term = is.Term
		}
	}
	return all
}
