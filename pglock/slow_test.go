// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// A lease lives as long as the server answers within a fifth of the TTL.
func TestLeaseLivesOnASlowLink(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second
	drivertest.SlowLink(t, server(t).Addr, ttl, ttl/5, func(addr string) (*pawl.Client, error) {
		return Open(context.Background(), "postgres://pawl@"+addr+"/postgres?sslmode=disable", &Options{Options: pawl.Options{TTL: ttl}, ConnectTimeout: patience})
	})
}
