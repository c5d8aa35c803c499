// SPDX-License-Identifier: Apache-2.0

// Package etcd opens etcd clusters for the command. A command built with
// -tags noetcd does without.
package etcd

import (
	"context"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/etcdlock"
)

// Open connects before ctx ends.
func Open(ctx context.Context, url string, opts *pawl.Options) (*pawl.Client, error) {
	own := &etcdlock.Options{Options: *opts}
	if end, ok := ctx.Deadline(); ok {
		own.ConnectTimeout = max(time.Until(end), time.Millisecond)
	}
	return etcdlock.Open(ctx, url, own)
}
