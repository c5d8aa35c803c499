// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
	"github.com/pawl-go/pawl/zklock"
)

// openRedis opens a Redis server. What its URL may contain is told by package
// redislock.
func openRedis(ctx context.Context, s *storeURL, opts *pawl.Options) (*pawl.Client, error) {
	own := redisOptions(ctx, opts)
	own.Logger = slog.New(warnings{os.Stderr})
	d, err := redislock.NewDriver(ctx, s.url.String(), own)
	if err != nil {
		return nil, err
	}
	return pawl.New(d, opts)
}

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

// openZooKeeper opens an ensemble of ZooKeeper servers. What its URL may contain is
// told by package zklock. Sessions that are too short for the TTL do not
// matter to a command that only looks, so it is not zklock.Open.
func openZooKeeper(ctx context.Context, s *storeURL, opts *pawl.Options) (*pawl.Client, error) {
	own := &zklock.Options{Options: *opts}
	if end, ok := ctx.Deadline(); ok {
		// A bit earlier, to tell what was wrong.
		own.ConnectTimeout = max(time.Until(end)*9/10, time.Millisecond)
	}
	d, err := zklock.NewDriver(ctx, s.url.String(), own)
	if err != nil {
		return nil, err
	}
	return pawl.New(d, opts)
}

// openRedlock opens N Redis servers. What the URL may contain is told by package
// redlock.
func openRedlock(ctx context.Context, s *storeURL, opts *pawl.Options) (*pawl.Client, error) {
	own := &redlock.Options{Options: *redisOptions(ctx, opts)}
	own.Logger = slog.New(warnings{os.Stderr})
	d, err := redlock.NewDriver(ctx, s.url.String(), own)
	if err != nil {
		return nil, err
	}
	return pawl.New(d, opts)
}

func maxTTLRedlock(ctx context.Context, s *storeURL, ttl time.Duration) error {
	return redlock.SetMaxTTL(ctx, s.url.String(), ttl, &redlock.Options{Options: *redisOptions(ctx, &pawl.Options{})})
}

// nodesRedlock asks the nodes how they are.
func nodesRedlock(ctx context.Context, s *storeURL) ([]redlock.Status, error) {
	d, err := redlock.NewDriver(ctx, s.url.String(), &redlock.Options{Options: *redisOptions(ctx, &pawl.Options{})})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Nodes(ctx), nil
}

// changeRedlock makes the next step from the nodes of one URL to those of another.
func changeRedlock(ctx context.Context, from, to *storeURL) (*redlock.Step, error) {
	return redlock.ChangeNodes(ctx, from.url.String(), to.url.String(), &redlock.Options{Options: *redisOptions(ctx, &pawl.Options{})})
}

func blessRedlock(ctx context.Context, s *storeURL) error {
	return redlock.Bless(ctx, s.url.String(), &redlock.Options{Options: *redisOptions(ctx, &pawl.Options{})})
}

// etcdOpen opens an etcd cluster. It is nil in a command that was built with -tags
// noetcd: etcd's client makes the start of a command, also of one that does not use it,
// twice as long, and its file three times as large.
var etcdOpen func(context.Context, string, *pawl.Options) (*pawl.Client, error)

// openEtcd opens an etcd cluster. What its URL may contain is told by package
// etcdlock.
func openEtcd(ctx context.Context, s *storeURL, opts *pawl.Options) (*pawl.Client, error) {
	if etcdOpen == nil {
		return nil, fail(exitConfig, "this pawl was built without the client of etcd",
			"install one with it: go install github.com/pawl-go/pawl/cmd/pawl@latest")
	}
	return etcdOpen(ctx, s.url.String(), opts)
}
