// SPDX-License-Identifier: Apache-2.0

//go:build linux

package servers_test

import (
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// A test of a program that uses locks on Redis, on a server that is there for this test only and
// grants at once. The program imports redislock.
func ExampleStartRedis() {
	TestNightly := func(t *testing.T) {
		locks, err := pawl.Open(t.Context(), servers.StoreURL(servers.StartRedis(t)), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		lease, err := locks.TryAcquire(t.Context(), "nightly")
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(t.Context())
	}
	_ = TestNightly
}
