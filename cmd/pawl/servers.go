// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
	_ "github.com/pawl-go/pawl/zklock"
)

func maxTTLRedis(ctx context.Context, s *storeURL, ttl time.Duration) error {
	return redislock.SetMaxTTL(ctx, s.url.String(), ttl, redisOptions(ctx, &pawl.Options{}))
}

func blessRedis(ctx context.Context, s *storeURL) error {
	return redislock.Bless(ctx, s.url.String(), redisOptions(ctx, &pawl.Options{}))
}

func redisOptions(ctx context.Context, opts *pawl.Options) *redislock.Options {
	own := &redislock.Options{Options: *opts}
	if end, ok := ctx.Deadline(); ok {
		own.ConnectTimeout = max(time.Until(end), time.Millisecond)
	}
	return own
}

func maxTTLRedlock(ctx context.Context, s *storeURL, ttl time.Duration) error {
	return redlock.SetMaxTTL(ctx, s.url.String(), ttl, &redlock.Options{Options: *redisOptions(ctx, &pawl.Options{})})
}

// nodesRedlock asks the nodes how they are.
func nodesRedlock(ctx context.Context, s *storeURL) ([]redlock.Status, error) {
	return redlock.Nodes(ctx, s.url.String(), &redlock.Options{Options: *redisOptions(ctx, &pawl.Options{})})
}

// examineRedlock is what is wrong with the nodes, where too few answer.
func examineRedlock(ctx context.Context, s *storeURL) []driver.Finding {
	found, err := redlock.Examine(ctx, s.url.String(), &redlock.Options{Options: *redisOptions(ctx, &pawl.Options{})})
	if err != nil {
		return nil // as opening it has said
	}
	return found
}

func blessRedlock(ctx context.Context, s *storeURL) error {
	return redlock.Bless(ctx, s.url.String(), &redlock.Options{Options: *redisOptions(ctx, &pawl.Options{})})
}
