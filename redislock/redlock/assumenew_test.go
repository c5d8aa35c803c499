// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestAssumeNew: nodes without a record grant at once to a client that says that they are new.
func TestAssumeNew(t *testing.T) {
	t.Parallel()
	d := openDriver(t, servers.StoreURL(servers.StartRedis(t), servers.StartRedis(t), servers.StartRedis(t)), patient())
	g, err := d.TryAcquire(t.Context(), long())
	if err != nil {
		t.Fatalf("the first TryAcquire = %v; want a grant", err)
	}
	release(t, g)
}
