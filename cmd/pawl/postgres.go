// SPDX-License-Identifier: Apache-2.0

//go:build !nopostgres

package main

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/pglock"
)

// A command that was built with -tags nopostgres does without PostgreSQL's client, which
// is 1.2 MB of its file.
func init() {
	for _, scheme := range []string{"postgres", "postgresql"} {
		blessings[scheme] = func(ctx context.Context, s *storeURL) error { return pglock.Bless(ctx, withSlashes(s.url), nil) }
		maxTTLs[scheme] = func(ctx context.Context, s *storeURL, ttl time.Duration) error {
			return pglock.SetMaxTTL(ctx, withSlashes(s.url), ttl, nil)
		}
	}
}
