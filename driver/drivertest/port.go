// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreeAddr returns an address on this machine for a server that the test starts, and
// starts again. No other test gets it before this one has ended, in whatever process:
// the UDP port of the same number is held until then. And no connection takes it by
// chance, as systems choose the ports of those from 32768 on.
func FreeAddr(t testing.TB) string {
	t.Helper()
	var err error
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000))
		var held net.PacketConn
		if held, err = net.ListenPacket("udp", addr); err != nil {
			continue
		}
		var free net.Listener
		if free, err = net.Listen("tcp", addr); err != nil {
			held.Close()
			continue
		}
		free.Close()
		t.Cleanup(func() { held.Close() })
		return addr
	}
	t.Fatalf("no port is free: %v", err)
	return ""
}
