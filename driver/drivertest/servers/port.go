// SPDX-License-Identifier: Apache-2.0

// Package servers starts Redis, PostgreSQL, PgBouncer, ZooKeeper and etcd on this machine, for the
// tests of stores and for measurements. Each server has its own directory and addresses, and
// keeps them over kill -9, SIGSTOP and restarts. StoreURL is for tests of programs that use
// locks. The package imports only the standard library. The servers run on Linux.
package servers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// Patience limits waits that are short unless the machine is very busy.
const Patience = 45 * time.Second

// T is the part of testing.TB that starts a server and ends it with the test.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
	TempDir() string
}

// Hold returns an address on this machine for a server, which may start there several times.
// Until release is called, Hold returns the address to nobody else, in any process, because it
// keeps the UDP port of the same number open. No outgoing connection takes the port by
// chance, because systems choose the ports of connections from 32768 on.
func Hold() (addr string, release func(), err error) {
	l, release, err := Listen()
	if err != nil {
		return "", nil, err
	}
	l.Close()
	return l.Addr().String(), release, nil
}

// Listen is Hold for a server within this process. Calling Hold and then net.Listen may fail: a
// child process that is being started has inherited the open port, and keeps it for a moment.
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

// growing is a time limit for one look at a server that may not be ready. Each look may take twice as
// long as the one before, up to five seconds, because a busy machine answers late.
type growing time.Duration

func (g *growing) next() time.Duration {
	limit := time.Duration(*g)
	*g = min(2**g, growing(5*time.Second))
	return limit
}

// Eventually calls f until it returns true, for at most limit, and reports whether it did. The
// pause between calls is a thirtieth of the time so far, from 1 ms to 100 ms: f may start a
// process, so it should not run too often.
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
