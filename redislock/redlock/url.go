// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock"
)

func init() { pawl.Register("redlock", openByURL) }

// openByURL is Open for pawl.Open.
func openByURL(ctx context.Context, url string, opts *pawl.Options) (driver.Store, error) {
	return openInto(ctx, url, &Options{Options: redislock.Options{Options: *opts}}, opts)
}
