// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// NodesOf returns the nodes of New for clients that the caller has made, of one master each.
// Closing the nodes does not close the clients. It ignores options about the connection. The
// clients should be made as redislock.New says; a master that does not answer within its
// client's timeouts holds up no other.
//
// The address of a master is the first one that its client was given. All clients of
// the store must have the same ones: see docs/redlock-nodes.md.
func NodesOf(clients []rueidis.Client, opts *Options) ([]Node, error) {
	opts = orDefault(opts)
	layout, err := opts.layout()
	if err != nil {
		return nil, err
	}
	var addrs []string
	for i, c := range clients {
		at := ""
		for addr := range c.Nodes() {
			at = cmp.Or(at, addr)
		}
		if c.Mode() != rueidis.ClientModeStandalone || len(c.Nodes()) != 1 {
			return nil, fmt.Errorf("redlock: client %d, of %s, is not of one server: %w", i, at, ErrNotIndependent)
		}
		addrs = append(addrs, at)
	}
	if err := opts.check(addrs); err != nil {
		return nil, err
	}
	limit := epoch.NewLimit(opts.MaxTTL, opts.Holder)
	limit.Note = opts.noted
	conf := nodeConfig(opts, limit)
	conf.Owned = false
	var nodes []Node
	for i, c := range clients {
		conf.Addr = addrs[i]
		nodes = append(nodes, newRedisNode(c, conf, layout))
	}
	enroll(nodes, opts.quorum(len(addrs)))
	return nodes, nil
}
