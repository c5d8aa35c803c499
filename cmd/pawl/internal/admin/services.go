// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
)

// service is what operators do at a store that may forget leases.
type service struct {
	bless  func(ctx context.Context, url string) error // ends the quarantine
	maxTTL func(ctx context.Context, url string, ttl time.Duration) error
}

var redis = service{
	func(ctx context.Context, url string) error {
		return redislock.Bless(ctx, url, stores.RedisOptions(ctx))
	},
	func(ctx context.Context, url string, ttl time.Duration) error {
		return redislock.SetMaxTTL(ctx, url, ttl, stores.RedisOptions(ctx))
	},
}

// services has the stores that may forget leases, by the scheme of the URL.
var services = map[string]service{"redis": redis, "rediss": redis, "unix": redis, "redlock": {
	func(ctx context.Context, url string) error { return redlock.Bless(ctx, url, redlockOptions(ctx)) },
	func(ctx context.Context, url string, ttl time.Duration) error {
		return redlock.SetMaxTTL(ctx, url, ttl, redlockOptions(ctx))
	},
}}

// storeFlag adds --store to a command that works on some stores only. It hides that of all commands.
func storeFlag(a *cli.App, cmd *cobra.Command, which string) {
	cli.StoreVar(cmd.Flags(), &a.Store, "`URL` of a "+which+" store (default $PAWL_STORE)")
}

// forgetful are the stores in services.
const forgetful = "Redis, redlock or PostgreSQL"

func redlockOptions(ctx context.Context) *redlock.Options {
	return &redlock.Options{Options: *stores.RedisOptions(ctx)}
}
