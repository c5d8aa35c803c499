// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/etcdlock"
	"github.com/pawl-go/pawl/filelock"
	"github.com/pawl-go/pawl/pglock"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
	"github.com/pawl-go/pawl/zklock"
)

// openStore opens the store at url, by its scheme.
func openStore(ctx context.Context, url string, ttl, wall time.Duration, verbose bool) (*pawl.Client, error) {
	opts := pawl.Options{TTL: ttl}
	if verbose {
		opts.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	scheme, rest, _ := strings.Cut(url, ":")
	switch scheme {
	case "redis":
		return redislock.Open(ctx, url, &redislock.Options{Options: opts})
	case "redlock":
		o := &redlock.Options{Options: redislock.Options{Options: opts}}
		if wall != 0 {
			o.WallClock = func() time.Time { return time.Now().Add(wall) }
		}
		return redlock.Open(ctx, url, o)
	case "zk":
		return zklock.Open(ctx, url, &zklock.Options{Options: opts})
	case "etcd":
		return etcdlock.Open(ctx, url, &etcdlock.Options{Options: opts})
	case "postgres":
		return pglock.Open(ctx, url, &pglock.Options{Options: opts})
	case "file":
		return filelock.Open(strings.TrimPrefix(rest, "//"), &filelock.Options{Options: opts})
	}
	return nil, fmt.Errorf("no store has the scheme %q", scheme)
}
