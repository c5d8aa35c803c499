// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestClusterWaitReplicas: of three masters one has a replica, so only leases in its
// slots are granted to who wants a replica to have them.
func TestClusterWaitReplicas(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	c.awaitReplica()
	c.bless(longOptions())
	opts := longOptions()
	opts.WaitReplicas = 1
	s := open(t, c.url(), opts)
	g := take(t, s, long(c.nameOn(0, "copied")))
	if _, err := g.Renew(t.Context(), time.Minute); err != nil {
		t.Errorf("Renew where there is a replica: %v", err)
	}
	if err := g.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	alone := c.nameOn(1, "alone")
	_, err := s.TryAcquire(t.Context(), long(alone))
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "0 of 1 replicas") {
		t.Errorf("TryAcquire where there is none = %v; want ErrUnavailable, with the numbers", err)
	}
	take(t, open(t, c.url(), longOptions()), long(alone)) // nothing was left there
}
