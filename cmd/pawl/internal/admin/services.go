// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
)

// blessings has what ends the wait of a store that may have forgotten leases.
var blessings = map[string]func(context.Context, *stores.URL) error{
	"redis":   blessRedis,
	"rediss":  blessRedis,
	"redlock": blessRedlock,
	"unix":    blessRedis,
}

// maxTTLs has what changes the longest TTL of a store.
var maxTTLs = map[string]func(context.Context, *stores.URL, time.Duration) error{
	"redis":   maxTTLRedis,
	"rediss":  maxTTLRedis,
	"redlock": maxTTLRedlock,
	"unix":    maxTTLRedis,
}

func maxTTLRedis(ctx context.Context, s *stores.URL, ttl time.Duration) error {
	return redislock.SetMaxTTL(ctx, s.Secret(), ttl, stores.RedisOptions(ctx))
}

func blessRedis(ctx context.Context, s *stores.URL) error {
	return redislock.Bless(ctx, s.Secret(), stores.RedisOptions(ctx))
}

func maxTTLRedlock(ctx context.Context, s *stores.URL, ttl time.Duration) error {
	return redlock.SetMaxTTL(ctx, s.Secret(), ttl, &redlock.Options{Options: *stores.RedisOptions(ctx)})
}

func blessRedlock(ctx context.Context, s *stores.URL) error {
	return redlock.Bless(ctx, s.Secret(), &redlock.Options{Options: *stores.RedisOptions(ctx)})
}

// nodesRedlock asks the nodes how they are.
func nodesRedlock(ctx context.Context, s *stores.URL) ([]redlock.Status, error) {
	return redlock.Nodes(ctx, s.Secret(), &redlock.Options{Options: *stores.RedisOptions(ctx)})
}
