// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// A lease lives as long as the server answers within a third of the TTL.
func TestLeaseLivesOnASlowLink(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second
	drivertest.SlowLink(t, startServer(t).Addr, ttl, ttl/4, func(addr string) (*pawl.Client, error) {
		return Open(context.Background(), "redis://"+addr, &Options{Options: pawl.Options{TTL: ttl}, AssumeNew: true, ConnectTimeout: patience})
	})
}
