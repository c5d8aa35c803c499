// SPDX-License-Identifier: Apache-2.0

//go:build !nopostgres

package admin

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/pglock"
)

func init() {
	postgres := service{
		func(ctx context.Context, url string) error { return pglock.Bless(ctx, url, nil) },
		func(ctx context.Context, url string, ttl time.Duration) error {
			return pglock.SetMaxTTL(ctx, url, ttl, nil)
		},
	}
	services["postgres"], services["postgresql"] = postgres, postgres
}
