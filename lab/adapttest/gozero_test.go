// SPDX-License-Identifier: Apache-2.0

package adapttest

import (
	"context"

	"github.com/zeromicro/go-zero/core/stores/redis"

	"github.com/pawl-go/pawl/adapt"
)

// goZeroLock is what code with go-zero calls. The library has no interface for it.
type goZeroLock interface {
	Acquire() (bool, error)
	AcquireCtx(context.Context) (bool, error)
	Release() (bool, error)
	ReleaseCtx(context.Context) (bool, error)
	SetExpire(seconds int)
}

var (
	_ goZeroLock = (*redis.RedisLock)(nil)
	_ goZeroLock = (*adapt.GoZeroLock)(nil)
)
