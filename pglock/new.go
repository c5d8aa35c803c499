// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-go/pawl"
)

// New returns a client of the database that pool is for, with its hosts, user, password,
// TLS configuration and dialer, and with what its BeforeConnect sets for each connection,
// such as a password that is valid for minutes. The connections are not the pool's: they
// are the client's own, at most MaxConns and one that listens, as a lock has to know over
// which of them a request went and has to hear messages. Nothing else is taken from the
// pool: AfterConnect and its kind, tracers and limits do not apply to these connections.
// Closing the pool does not close the client, nor the other way round. In opts, Password
// must not be set: it is the pool's. The errors are those of Open.
func New(ctx context.Context, pool *pgxpool.Pool, opts *Options) (*pawl.Client, error) {
	opts = orDefault(opts)
	if pool == nil || opts.Password != "" {
		return nil, &pawl.Error{Op: "open", Err: errors.New("pglock: New takes a pool that is not nil, and the password from it: leave Options.Password empty")}
	}
	where, err := ofPool(pool.Config(), opts)
	if err != nil {
		return nil, &pawl.Error{Op: "open", Err: err}
	}
	return pawl.Connect(ctx, where.open, &opts.Options)
}

// ofPool is parseURL for a pool.
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
