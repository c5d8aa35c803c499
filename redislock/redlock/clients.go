// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/nodewire"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// New returns a pawl client that uses the rueidis clients of the caller, one for each master. Closing the
// pawl client leaves them open. New ignores options about the connection. Make the rueidis clients as
// redislock.New says. A master that does not answer within its client's timeouts does not delay the others.
//
// The address of a master is the first one that its rueidis client was given. All pawl clients of the store
// must use the same addresses: see docs/redlock-nodes.md. New returns the errors of Open.
func New(ctx context.Context, clients []rueidis.Client, opts *Options) (*pawl.Client, error) {
	nodes, err := nodesOf(clients, opts)
	if err != nil {
		return nil, &pawl.Error{Op: "open", Err: err}
	}
	d, err := newStore(ctx, nodes, opts)
	if err != nil {
		return nil, &pawl.Error{Op: "open", Err: err}
	}
	return newClient(d, opts)
}

func nodesOf(clients []rueidis.Client, opts *Options) ([]nodewire.Node, error) {
	opts = storekit.OrDefault(opts)
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
	limit := epoch.NewLimit(opts.MaxTTL, driver.Holder(opts.Holder))
	limit.Note = opts.noted
	conf := nodeConfig(opts, limit)
	conf.Owned = false
	var nodes []nodewire.Node
	for i, c := range clients {
		conf.Addr = addrs[i]
		nodes = append(nodes, newRedisNode(c, conf, layout))
	}
	enroll(nodes, opts.quorum(len(addrs)))
	return nodes, nil
}
