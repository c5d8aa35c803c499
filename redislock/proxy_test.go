// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy passes on what goes between one participant and a server.
type proxy struct {
	listener net.Listener
	work     sync.WaitGroup

	mu     sync.Mutex
	target string
	cut    bool // lose everything
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
// made the connection to the server, and it is closed with Heal.
func (p *proxy) pass(in net.Conn) {
	defer p.forget(in)
	if !p.keep(in) {
		return
	}
	if p.isCut() {
		p.lossy(nil, in)
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
	both.Go(func() { p.lossy(out, in); out.Close(); in.Close() })
	both.Go(func() { p.lossy(in, out); in.Close(); out.Close() })
	both.Wait()
}

// lossy copies from src to dst, but for what comes while the two are cut off: that
// is read and lost, and the connection is good for nothing any more.
func (p *proxy) lossy(dst, src net.Conn) {
	buf := make([]byte, 32<<10)
	lost := dst == nil
	for {
		n, err := src.Read(buf)
		if n > 0 && p.isCut() {
			lost = true
			p.mu.Lock()
			p.conns[src] = true
			if dst != nil {
				p.conns[dst] = true
			}
			p.mu.Unlock()
		} else if n > 0 && !lost && !p.spoilt(src) {
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			// An end that is lost leaves the other one open.
			if p.isCut() && err == io.EOF && dst != nil {
				p.awaitHeal(dst)
			}
			return
		}
	}
}

// awaitHeal returns when conn is closed, which Heal does at the latest.
func (p *proxy) awaitHeal(conn net.Conn) {
	p.mu.Lock()
	p.conns[conn] = true
	p.mu.Unlock()
	io.Copy(io.Discard, conn)
}

func (p *proxy) spoilt(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns[c]
}

func (p *proxy) isCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.Close()
		return false
	}
	p.conns[c] = p.cut
	return true
}

func (p *proxy) forget(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *proxy) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	if cut {
		return
	}
	for c, lost := range p.conns {
		if lost {
			c.Close()
		}
	}
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
