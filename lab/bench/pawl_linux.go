// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock"
	"github.com/pawl-go/pawl/internal/participant"
	"github.com/pawl-go/pawl/pglock"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
	"github.com/pawl-go/pawl/zklock"
)

func init() {
	key := func(name string) string { return "pawl:{" + name + "}" }
	enlist(
		&contender{name: "pawl", kind: ours, key: key, open: func(ctx context.Context, w *world, _ seat) (locker, error) {
			return client(redislock.Open(ctx, "redis://"+w.Redis[0], &redislock.Options{Options: pawl.Options{TTL: w.TTL}}))
		}},
		&contender{name: "pawl, KeepIdle", kind: ours, key: key, open: func(ctx context.Context, w *world, _ seat) (locker, error) {
			c, err := redislock.Open(ctx, "redis://"+w.Redis[0], &redislock.Options{Options: pawl.Options{TTL: w.TTL}})
			if err != nil {
				return nil, err
			}
			return pawlClient{c, []pawl.Option{pawl.KeepIdle(time.Hour)}}, nil
		}},
		// Without a client's local line, each call waits in the store's queue. So a few
		// processes can be a thousand waiters.
		&contender{name: "pawl, no local line", kind: ours, key: key, open: func(ctx context.Context, w *world, _ seat) (locker, error) {
			s, err := redislock.NewStore(ctx, "redis://"+w.Redis[0], nil)
			if err != nil {
				return nil, err
			}
			return &lineless{participant.New(s, participant.Options{}), w}, nil
		}},
		&contender{name: "pawl redlock", kind: ours, open: func(ctx context.Context, w *world, _ seat) (locker, error) {
			return client(redlock.Open(ctx, w.redlockURL(), &redlock.Options{Options: redislock.Options{Options: pawl.Options{TTL: w.TTL}}}))
		}},
		&contender{name: "pawl zk", kind: ours, open: func(ctx context.Context, w *world, _ seat) (locker, error) {
			return client(zklock.Open(ctx, "zk://"+w.ZK, &zklock.Options{Options: pawl.Options{TTL: w.TTL}, TickTime: zkTick}))
		}},
		&contender{name: "pawl etcd", kind: ours, open: func(ctx context.Context, w *world, _ seat) (locker, error) {
			return client(etcdlock.Open(ctx, "etcd://"+w.Etcd, &etcdlock.Options{Options: pawl.Options{TTL: w.TTL}}))
		}},
		&contender{name: "pawl postgres", kind: ours, open: openPostgres(pglock.Durable)},
		&contender{name: "pawl postgres, async", kind: ours, open: openPostgres(pglock.Async)},
	)
}

func openPostgres(mode pglock.Mode) func(context.Context, *world, seat) (locker, error) {
	return func(ctx context.Context, w *world, _ seat) (locker, error) {
		return client(pglock.Open(ctx, w.Postgres, &pglock.Options{Options: pawl.Options{TTL: w.TTL}, Mode: mode, Schema: "pawl_" + string(mode)}))
	}
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

// lineless is a client without its local line.
type lineless struct {
	p *participant.Participant
	w *world
}

func (h *lineless) lock(ctx context.Context, name string) (func() error, uint64, error) {
	lease, err := h.p.Acquire(ctx, &driver.Request{Name: name, Lease: rand.Text(), TTL: h.w.TTL, Holder: &driver.Holder{Who: "bench"},
		Renewed: true}) // nothing renews it: the bench releases it long before its TTL
	if err != nil {
		return nil, 0, err
	}
	return func() error { return lease.Release(context.Background()) }, lease.Token(), nil
}

func (h *lineless) close() { _ = h.p.Close() }
