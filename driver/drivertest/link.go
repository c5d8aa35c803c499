// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// Link is a TCP proxy between one participant and a server of its store, for the hooks
// Crash, Cut and Heal of a Store, and for tests of drivers on a broken network. A
// connection that has lost something stays open and silent until the link is Healthy
// again, and is closed then: a stream does not go on behind a gap. It is safe for
// concurrent use.
type Link struct {
	listener net.Listener
	work     sync.WaitGroup

	mu     sync.Mutex
	fault  Fault
	target string
	made   int           // connections
	late   time.Duration // of what comes over new connections, each way
	closed bool
	conns  map[net.Conn]bool // both ends; true if it has lost something
}

// NewLink returns a healthy link to the server at target, a host and a port. It
// is closed when the test ends.
func NewLink(t testing.TB, target string) *Link {
	t.Helper()
	// A participant that was crashed by Close is still there, and dials again and again. If the
	// next link had the address, it would come to another server than before, and say so there.
	listener, release, err := servers.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	l := &Link{listener: listener, target: target, conns: make(map[net.Conn]bool)}
	l.work.Go(l.serve)
	t.Cleanup(l.Close)
	return l
}

// Addr returns the address, a host and a port, to which the participant connects.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Fault returns the present fault of the link.
func (l *Link) Fault() Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// Set changes the fault of the link, from the next bytes on. Healthy closes the
// connections that have lost something.
func (l *Link) Set(f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = f
	for c, lost := range l.conns {
		switch {
		case f == Resets:
			reset(c)
		case f == Forgotten:
			l.conns[c] = true
		case f == Healthy && lost:
			c.Close()
		}
	}
}

// Redirect puts another server behind the address, and closes all connections.
func (l *Link) Redirect(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
	for c := range l.conns {
		c.Close()
	}
}

// Move puts another server behind the address for new connections. Present ones go on,
// to the server that they lead to. This is what happens behind a virtual IP, a proxy or
// a name that moves to another server.
func (l *Link) Move(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
}

// Slow makes new connections slow: what is sent over them arrives d later, in each
// direction. They carry as much as before: requests do not wait for each other.
func (l *Link) Slow(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = d
}

// Made returns how many connections were made to the link so far.
func (l *Link) Made() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made
}

// Close ends all connections, as the end of the process at one of their ends does, and
// accepts no more. Nobody else gets the address before the test has ended. It may be
// called again.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	l.listener.Close()
	for c := range l.conns {
		c.Close()
	}
	l.mu.Unlock()
	l.work.Wait()
}

func (l *Link) serve() {
	for {
		in, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.mu.Lock()
		l.made++
		l.mu.Unlock()
		l.work.Go(func() { l.join(in) })
	}
}

// join serves one connection. While everything is lost, the connection to the server is
// not made either; the client's one is closed when the link is healthy again.
func (l *Link) join(in net.Conn) {
	defer l.forget(in)
	if !l.keep(in) {
		return
	}
	if l.Fault() == BlackHole && l.loses(up, in, nil) {
		l.pass(nil, in, up, nil)
		return
	}
	l.mu.Lock()
	target, late := l.target, l.late
	l.mu.Unlock()
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer l.forget(out)
	if !l.keep(out) {
		return
	}
	toServer, toClient := newDelay(out, late), newDelay(in, late)
	defer toServer.end()
	defer toClient.end()
	var both sync.WaitGroup
	both.Go(func() { l.pass(out, in, up, toServer); out.Close(); in.Close() })
	both.Go(func() { l.pass(in, out, down, toClient); in.Close(); out.Close() })
	both.Wait()
}

// pass copies from src to dst, by way of w. While that direction is dead it reads the bytes and
// drops them, and the connection cannot be used any more.
func (l *Link) pass(dst, src net.Conn, d direction, w io.Writer) {
	buf := make([]byte, 32<<10)
	lost := dst == nil
	for {
		n, err := src.Read(buf)
		if l.loses(d, src, dst) {
			lost = true
			if err == io.EOF && dst != nil { // an end that is lost leaves the other one open
				io.Copy(io.Discard, dst)
			}
		} else if n > 0 && !lost {
			if l.Fault() == Delayed {
				time.Sleep(linkDelay)
			}
			if _, err := w.Write(buf[:n]); err != nil {
				if !l.loses(1-d, src, dst) { // else src does not hear that dst has gone
					return
				}
				lost = true
			}
		}
		if err != nil {
			return
		}
	}
}

// loses reports whether the link loses what comes from src now, even if that is its
// end. It records that in the same step: otherwise Healthy in between would leave a
// stream with a gap.
func (l *Link) loses(d direction, src, dst net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.fault.loses(d) && !(l.fault == Forgotten && l.conns[src]) {
		return false
	}
	for _, c := range []net.Conn{src, dst} {
		if _, ok := l.conns[c]; ok {
			l.conns[c] = true
		}
	}
	return true
}

func (l *Link) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.fault == Resets {
		reset(c)
		return false
	}
	l.conns[c] = l.fault == BlackHole
	return true
}

func (l *Link) forget(c net.Conn) {
	c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// reset ends a connection in the middle of whatever is under way.
func reset(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}
