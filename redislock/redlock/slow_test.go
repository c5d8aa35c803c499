// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// A lease lives as long as the nodes answer within a fifth of the TTL.
func TestLeaseLivesOnASlowLink(t *testing.T) {
	t.Parallel()
	const ttl = 9 * time.Second // a renewal may be late by seconds on a busy machine, and so may a release, which has five
	opts := new(Options)
	opts.TTL, opts.ConnectTimeout = ttl, patience
	f := startFleet(t, 3, opts)
	f.name(t, opts)
	drivertest.SlowLink(t, f[0].Addr, ttl, ttl/5, func(addr string) (*pawl.Client, error) {
		addrs := []string{addr}
		for _, s := range f[1:] {
			other := s.Addr
			if addr != f[0].Addr {
				other = drivertest.SlowTo(t, s.Addr, ttl/5).Addr()
			}
			addrs = append(addrs, other)
		}
		return Open(context.Background(), "redlock://"+strings.Join(addrs, ","), opts)
	})
}

// TestFirstUseOfSlowNodes: the nodes are led through all states although each answer takes more than half a second.
func TestFirstUseOfSlowNodes(t *testing.T) {
	t.Parallel()
	opts := new(Options)
	opts.ConnectTimeout = patience
	var addrs []string
	for _, s := range startFleet(t, 3, opts) {
		addrs = append(addrs, drivertest.SlowTo(t, s.Addr, 600*time.Millisecond).Addr())
	}
	d := openDriver(t, "redlock://"+strings.Join(addrs, ","), opts)
	g := get(t, d, request())
	release(t, g)
}
