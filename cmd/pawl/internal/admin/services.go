// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
)

// blessings has, for each scheme of a URL, the function that ends a store's quarantine.
var blessings = map[string]func(context.Context, *stores.URL) error{
	"redis": blessRedis, "rediss": blessRedis, "unix": blessRedis,
	"redlock": func(ctx context.Context, s *stores.URL) error {
		return redlock.Bless(ctx, s.Secret(), redlockOptions(ctx))
	},
}

// maxTTLs has, for each scheme of a URL, the function that sets a store's MaxTTL.
var maxTTLs = map[string]func(context.Context, *stores.URL, time.Duration) error{
	"redis": maxTTLRedis, "rediss": maxTTLRedis, "unix": maxTTLRedis,
	"redlock": func(ctx context.Context, s *stores.URL, ttl time.Duration) error {
		return redlock.SetMaxTTL(ctx, s.Secret(), ttl, redlockOptions(ctx))
	},
}

func blessRedis(ctx context.Context, s *stores.URL) error {
	return redislock.Bless(ctx, s.Secret(), stores.RedisOptions(ctx))
}

func maxTTLRedis(ctx context.Context, s *stores.URL, ttl time.Duration) error {
	return redislock.SetMaxTTL(ctx, s.Secret(), ttl, stores.RedisOptions(ctx))
}

func redlockOptions(ctx context.Context) *redlock.Options {
	return &redlock.Options{Options: *stores.RedisOptions(ctx)}
}
