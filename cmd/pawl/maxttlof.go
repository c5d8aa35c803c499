// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
)

// blessings has what ends the wait of a store that may have forgotten leases.
var blessings = map[string]func(context.Context, *URL) error{
	"redis":   blessRedis,
	"rediss":  blessRedis,
	"redlock": blessRedlock,
	"unix":    blessRedis,
}

// maxTTLs has what changes the longest TTL of a store.
var maxTTLs = map[string]func(context.Context, *URL, time.Duration) error{
	"redis":   maxTTLRedis,
	"rediss":  maxTTLRedis,
	"redlock": maxTTLRedlock,
	"unix":    maxTTLRedis,
}

func maxTTLRedis(ctx context.Context, s *URL, ttl time.Duration) error {
	return redislock.SetMaxTTL(ctx, s.secret(), ttl, redisOptions(ctx))
}

func blessRedis(ctx context.Context, s *URL) error {
	return redislock.Bless(ctx, s.secret(), redisOptions(ctx))
}

func maxTTLRedlock(ctx context.Context, s *URL, ttl time.Duration) error {
	return redlock.SetMaxTTL(ctx, s.secret(), ttl, &redlock.Options{Options: *redisOptions(ctx)})
}

func blessRedlock(ctx context.Context, s *URL) error {
	return redlock.Bless(ctx, s.secret(), &redlock.Options{Options: *redisOptions(ctx)})
}

// nodesRedlock asks the nodes how they are.
func nodesRedlock(ctx context.Context, s *URL) ([]redlock.Status, error) {
	return redlock.Nodes(ctx, s.secret(), &redlock.Options{Options: *redisOptions(ctx)})
}
