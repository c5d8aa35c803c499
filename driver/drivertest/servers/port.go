// SPDX-License-Identifier: Apache-2.0

// Package servers starts Redis, ZooKeeper and etcd on this machine, for the tests of stores
// and for measurements: each server with a directory and addresses of its own, which it
// keeps over kill -9, SIGSTOP and restarts. StoreURL is for tests of programs that use locks. It uses the standard library alone. The servers run on Linux.
package servers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// Patience is for what takes no time unless the machine is very busy.
const Patience = 45 * time.Second

// T is what a test lends a server that ends with it: a testing.TB.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
	TempDir() string
}

// Hold returns an address on this machine for a server that is started, and started again.
// Nobody else gets it from Hold before release is called, in whatever process: the UDP
// port of the same number is held until then. And no connection takes it by chance, as
// systems choose the ports of those from 32768 on.
func Hold() (addr string, release func(), err error) {
	l, release, err := Listen()
	if err != nil {
		return "", nil, err
	}
	l.Close()
	return l.Addr().String(), release, nil
}

// Listen is Hold for a server within this process. To listen only later may fail: a process
// that is just being started has what was open when it was forked, for a moment.
func Listen() (l net.Listener, release func(), err error) {
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000))
		var held net.PacketConn
		if held, err = net.ListenPacket("udp", addr); err != nil {
			continue
		}
		if l, err = net.Listen("tcp", addr); err == nil {
			return l, func() { held.Close() }, nil
		}
		held.Close()
	}
	return nil, nil, fmt.Errorf("no port is free: %w", err)
}

// growing is a limit for one look at a server that may not be ready: each may take twice as long as
// the one before, up to five seconds, since a machine that is busy answers late.
type growing time.Duration

func (g *growing) next() time.Duration {
	limit := time.Duration(*g)
	*g = min(2**g, growing(5*time.Second))
	return limit
}

// Eventually calls f until it returns true, for at most limit: every millisecond at first,
// later after another thirtieth of the time, since f may start a process.
func Eventually(limit time.Duration, f func() bool) bool {
	for began := time.Now(); ; {
		if f() {
			return true
		}
		waited := time.Since(began)
		if waited > limit {
			return false
		}
		time.Sleep(min(max(waited/30, time.Millisecond), 100*time.Millisecond))
	}
}
