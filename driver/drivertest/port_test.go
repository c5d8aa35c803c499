// SPDX-License-Identifier: Apache-2.0

package drivertest_test

import (
	"net"
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestFreeAddr: no address is given out twice while a test uses it, and a server can
// listen on each.
func TestFreeAddr(t *testing.T) {
	seen := make(map[string]bool)
	t.Run("in use", func(t *testing.T) {
		for range 300 {
			addr := drivertest.FreeAddr(t)
			if seen[addr] {
				t.Fatalf("%s is given out twice", addr)
			}
			seen[addr] = true
			l, err := net.Listen("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		}
	})
	for addr := range seen { // they are free again when the test has ended
		held, err := net.ListenPacket("udp", addr)
		if err != nil {
			t.Fatal(err)
		}
		held.Close()
	}
}
