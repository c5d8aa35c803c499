// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

func init() {
	for _, scheme := range []string{"redis", "rediss", "unix"} {
		pawl.Register(scheme, openByURL)
	}
}

// openByURL opens a store for pawl.Open.
func openByURL(ctx context.Context, url string, opts *pawl.Options) (driver.Store, error) {
	return openInto(ctx, url, &Options{Options: *opts}, opts)
}
