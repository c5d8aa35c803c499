// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/storekit"
)

// New returns a client of the database of pool. From the pool it takes the hosts, user, password, TLS
// configuration, dialer, and BeforeConnect, which may set a short-lived password for each connection. The other
// hooks, the tracers and the limits of the pool have no effect.
//
// The client makes its own connections: at most MaxConns, and one that listens. It has to know over which
// connection a request went, and to receive messages. Closing the pool does not close the client, and closing the
// client does not close the pool. Options.Password must be empty. New returns the errors of Open.
func New(ctx context.Context, pool *pgxpool.Pool, opts *Options) (*pawl.Client, error) {
	opts = storekit.OrDefault(opts)
	if pool == nil || opts.Password != "" {
		return nil, &pawl.Error{Op: "open", Err: errors.New("pglock: the pool is nil, or Options.Password is set: pass a pool, which has the password, and leave Options.Password empty")}
	}
	where, err := ofPool(pool.Config(), opts)
	if err != nil {
		return nil, &pawl.Error{Op: "open", Err: err}
	}
	return pawl.Connect(ctx, where.open, &opts.Options)
}

// ofPool returns an address with the configuration of a pool.
func ofPool(pool *pgxpool.Config, opts *Options) (*address, error) {
	a := &address{opts: *opts, config: &pool.ConnConfig.Config}
	name(a.config)
	a.shown = shown(a.config)
	if pool.BeforeConnect != nil {
		a.before = func(ctx context.Context) (*pgconn.Config, error) {
			c := pool.ConnConfig.Copy()
			err := pool.BeforeConnect(ctx, c)
			return &c.Config, err
		}
	}
	return a, a.direct()
}
