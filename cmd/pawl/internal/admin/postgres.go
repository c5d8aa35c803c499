// SPDX-License-Identifier: Apache-2.0

//go:build !nopostgres

package admin

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/pglock"
)

func init() {
	for _, scheme := range []string{"postgres", "postgresql"} {
		blessings[scheme] = func(ctx context.Context, s *stores.URL) error { return pglock.Bless(ctx, s.Secret(), nil) }
		maxTTLs[scheme] = func(ctx context.Context, s *stores.URL, ttl time.Duration) error {
			return pglock.SetMaxTTL(ctx, s.Secret(), ttl, nil)
		}
	}
}
