// SPDX-License-Identifier: Apache-2.0

//go:build !nopostgres

package main

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/pglock"
)

func init() {
	for _, scheme := range []string{"postgres", "postgresql"} {
		blessings[scheme] = func(ctx context.Context, s *URL) error { return pglock.Bless(ctx, s.secret(), nil) }
		maxTTLs[scheme] = func(ctx context.Context, s *URL, ttl time.Duration) error {
			return pglock.SetMaxTTL(ctx, s.secret(), ttl, nil)
		}
	}
}
