// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/etcdlock"
	"github.com/pawl-go/pawl/pglock"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
	"github.com/pawl-go/pawl/zklock"
)

func init() {
	enlist(
		&contender{name: "pawl", kind: ours, open: func(ctx context.Context, w *world, _ seat) (locker, error) {
			return client(redislock.Open(ctx, w.redisURL(), &redislock.Options{Options: pawl.Options{TTL: leaseTTL}}))
		}},
		&contender{name: "pawl, KeepIdle", kind: ours, open: func(ctx context.Context, w *world, _ seat) (locker, error) {
			c, err := redislock.Open(ctx, w.redisURL(), &redislock.Options{Options: pawl.Options{TTL: leaseTTL}})
			if err != nil {
				return nil, err
			}
			return pawlClient{c, []pawl.Option{pawl.KeepIdle(time.Hour)}}, nil
		}},
		&contender{name: "pawl redlock", kind: ours, open: func(ctx context.Context, w *world, _ seat) (locker, error) {
			return client(redlock.Open(ctx, w.redlockURL(), &redlock.Options{Options: redislock.Options{Options: pawl.Options{TTL: leaseTTL}}}))
		}},
		&contender{name: "pawl zk", kind: ours, open: func(ctx context.Context, w *world, _ seat) (locker, error) {
			return client(zklock.Open(ctx, "zk://"+w.ZK, &zklock.Options{Options: pawl.Options{TTL: leaseTTL}, TickTime: zkTick}))
		}},
		&contender{name: "pawl etcd", kind: ours, open: func(ctx context.Context, w *world, _ seat) (locker, error) {
			return client(etcdlock.Open(ctx, "etcd://"+w.Etcd, &etcdlock.Options{Options: pawl.Options{TTL: leaseTTL}}))
		}},
		&contender{name: "pawl postgres", kind: ours, open: func(ctx context.Context, w *world, _ seat) (locker, error) {
			return client(pglock.Open(ctx, w.Postgres, &pglock.Options{Options: pawl.Options{TTL: leaseTTL}}))
		}},
	)
}

func client(c *pawl.Client, err error) (locker, error) {
	if err != nil {
		return nil, err
	}
	return pawlClient{c: c}, nil
}

type pawlClient struct {
	c       *pawl.Client
	options []pawl.Option
}

func (p pawlClient) lock(ctx context.Context, name string) (func() error, uint64, error) {
	lease, err := p.c.Acquire(ctx, name, p.options...)
	if err != nil {
		return nil, 0, err
	}
	return func() error { return lease.Release(context.Background()) }, uint64(lease.Token()), nil
}

func (p pawlClient) close() { _ = p.c.Close() }
