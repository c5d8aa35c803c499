// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// New returns a pawl client that uses the rueidis clients of the caller, one for each master. Closing the
// pawl client leaves them open. New ignores options about the connection. Make the rueidis clients as
// redislock.New says. A master that does not answer within its client's timeouts does not delay the others.
//
// The address of a master is the first one that its rueidis client was given. All pawl clients of the store
// must use the same addresses: see docs/redlock-nodes.md. New returns the errors of Open.
func New(ctx context.Context, clients []rueidis.Client, opts *Options) (*pawl.Client, error) {
	d, err := storeOf(ctx, clients, storekit.OrDefault(opts))
	if err != nil {
		return nil, &pawl.Error{Op: "open", Err: err}
	}
	return newClient(d, opts)
}

func storeOf(ctx context.Context, clients []rueidis.Client, opts *Options) (*store, error) {
	conf, err := nodeConfig(opts)
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
	conf.Limit.Note, conf.Owned = opts.noted, false
	var nodes []nodewire.Node
	for i, c := range clients {
		conf.Addr = addrs[i]
		nodes = append(nodes, newRedisNode(c, conf))
	}
	enroll(nodes, opts.quorum(len(addrs)))
	return newStore(ctx, nodes, opts)
}
