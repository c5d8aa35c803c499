// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/linear"
)

func TestLinearizable(t *testing.T) {
	t.Parallel()
	h := harness()
	h.TTL = time.Second
	linear.Run(t, h)
}
