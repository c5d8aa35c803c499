// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/redislock"
	_ "github.com/pawl-go/pawl/redislock/redlock"
	_ "github.com/pawl-go/pawl/zklock"
)

// RedisOptions returns options whose ConnectTimeout is the time that ctx has left.
func RedisOptions(ctx context.Context) *redislock.Options {
	own := new(redislock.Options)
	if end, ok := ctx.Deadline(); ok {
		own.ConnectTimeout = max(time.Until(end), time.Millisecond)
	}
	return own
}
