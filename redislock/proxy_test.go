// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// fault is what a network does to a link.
type fault string

const (
	healthy      fault = ""
	blackHole    fault = "black hole"    // what is sent is lost, both ways
	requestsLost fault = "requests lost" // half-open: what the server sends arrives
	repliesLost  fault = "replies lost"  // half-open: what the client sends arrives
	delayed      fault = "delay"         // of 200 ms each way
	resets       fault = "reset"         // of connections, old and new
)

// direction is that of what is passed on.
type direction int

const (
	up   direction = iota // to the server
	down                  // to the client
)

// loses reports whether the fault loses what is sent in a direction.
func (f fault) loses(d direction) bool {
	return f == blackHole || f == requestsLost && d == up || f == repliesLost && d == down
}

// proxy passes on what goes between one participant and a server.
type proxy struct {
	listener net.Listener
	work     sync.WaitGroup

	mu     sync.Mutex
	fault  fault
	after  string // text from the server behind which the fault next begins; empty if none
	next   fault
	target string
	closed bool
	conns  map[net.Conn]bool // both ends; true if it has lost something
}

func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, conns: make(map[net.Conn]bool)}
	p.work.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) url() string { return "redis://" + p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.pass(in) })
	}
}

// pass serves one connection. While everything is lost, so is what would have
// made the connection to the server, and it is closed when all is well again.
func (p *proxy) pass(in net.Conn) {
	defer p.forget(in)
	if !p.keep(in) {
		return
	}
	if p.now() == blackHole {
		p.lossy(nil, in, up)
		return
	}
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer p.forget(out)
	if !p.keep(out) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.lossy(out, in, up); out.Close(); in.Close() })
	both.Go(func() { p.lossy(in, out, down); in.Close(); out.Close() })
	both.Wait()
}

// lossy copies from src to dst, but for what comes while that direction is dead: it
// is read and lost, and the connection is good for nothing any more.
func (p *proxy) lossy(dst, src net.Conn, d direction) {
	buf := make([]byte, 32<<10)
	lost := dst == nil
	for {
		n, err := src.Read(buf)
		if n > 0 && p.now().loses(d) {
			lost = true
			p.spoil(src, dst)
		} else if n > 0 && !lost {
			if p.now() == delayed {
				time.Sleep(200 * time.Millisecond)
			}
			if _, err := dst.Write(buf[:n]); err != nil {
				if !p.now().loses(1 - d) { // else src does not hear that dst has gone
					return
				}
				lost = true
				p.spoil(src, dst)
			}
			if d == down {
				p.passed(buf[:n])
			}
		}
		if err != nil {
			// An end that is lost leaves the other one open.
			if p.now().loses(d) && err == io.EOF && dst != nil {
				p.spoil(dst)
				io.Copy(io.Discard, dst)
			}
			return
		}
	}
}

// spoil notes that connections have lost something, and are to be closed when all
// is well again.
func (p *proxy) spoil(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if _, ok := p.conns[c]; ok {
			p.conns[c] = true
		}
	}
}

func (p *proxy) now() fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// passed begins the fault that is to come behind some text.
func (p *proxy) passed(text []byte) {
	p.mu.Lock()
	hit := p.after != "" && bytes.Contains(text, []byte(p.after))
	if hit {
		p.after = ""
	}
	p.mu.Unlock()
	if hit {
		p.setFault(p.next)
	}
}

// setFaultAfter lets a fault begin as soon as text has come from the server.
func (p *proxy) setFaultAfter(text string, f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after, p.next = text, f
}

func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.fault == resets {
		reset(c)
		return false
	}
	p.conns[c] = p.fault == blackHole
	return true
}

func (p *proxy) forget(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// setFault changes what becomes of the link. When all is well again,
// connections that have lost something end.
func (p *proxy) setFault(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	for c, lost := range p.conns {
		if f == resets {
			reset(c)
		} else if f == healthy && lost {
			c.Close()
		}
	}
}

// setCut loses everything, or ends that.
func (p *proxy) setCut(cut bool) {
	if cut {
		p.setFault(blackHole)
	} else {
		p.setFault(healthy)
	}
}

// reset ends a connection in the middle of whatever is under way.
func reset(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// redirect puts another server behind the address.
func (p *proxy) redirect(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	for c := range p.conns {
		c.Close()
	}
}

// close ends all connections, as the end of the process at one of their ends
// does.
func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.listener.Close()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}
