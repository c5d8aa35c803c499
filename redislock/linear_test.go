// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/linear"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
)

func TestLinearizable(t *testing.T) {
	t.Parallel()
	const recovery = 4 * time.Second
	linear.Run(t, wiretest.Harness{
		Start:    func(t testing.TB) wiretest.Service { return wireService(t, recovery) },
		TTL:      time.Second,
		Recovery: recovery,
	})
}
