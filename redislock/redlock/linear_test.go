// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/linear"
)

func TestLinearizable(t *testing.T) {
	t.Parallel()
	h := harness(3, 5*time.Second)
	h.TTL = 2 * time.Second
	linear.Run(t, h)
}
