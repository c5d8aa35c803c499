// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestAssumeNew: a server without a record grants at once to a client that says that it is new.
// One that has a record is left as it is, also while it grants nothing.
func TestAssumeNew(t *testing.T) {
	t.Parallel()
	fresh := longOptions()
	fresh.AssumeNew = true
	r := startServer(t)
	release(t, take(t, open(t, servers.StoreURL(r.Redis), longOptions()), long("deploy")))

	r = startServer(t)
	_, err := open(t, r.url(), longOptions()).TryAcquire(t.Context(), long("deploy"))
	if !errors.As(err, new(*driver.ClosedError)) || !strings.Contains(err.Error(), "redislock.Bless") {
		t.Fatalf("TryAcquire on a new server = %v; want a ClosedError that says what to do", err)
	}
	if _, err := open(t, r.url(), fresh).TryAcquire(t.Context(), long("deploy")); !errors.As(err, new(*driver.ClosedError)) {
		t.Errorf("TryAcquire on a server that has a record = %v; want ClosedError", err)
	}

	c := startCluster(t, 0)
	release(t, take(t, open(t, c.url(), fresh), long("deploy")))
}
