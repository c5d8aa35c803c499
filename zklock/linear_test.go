// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest/linear"
)

func TestLinearizable(t *testing.T) {
	t.Parallel()
	linear.Run(t, harness(4*suiteTTL))
}
