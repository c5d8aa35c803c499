// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"net"
	"sync"
	"testing"
)

// proxy passes on what goes between one participant and one server. What comes
// while it is cut is lost, and with it the connection: it is closed when the cut
// heals.
type proxy struct {
	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	gone  bool
	conns map[net.Conn]bool // true if it has lost something
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

func (p *proxy) serve() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			in.Close()
			continue
		}
		p.keep(in)
		p.keep(out)
		p.work.Go(func() { p.copy(out, in) })
		p.work.Go(func() { p.copy(in, out) })
	}
}

func (p *proxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = p.cut
	if p.gone {
		c.Close()
	}
}

// copy copies from src to dst.
func (p *proxy) copy(dst, src net.Conn) {
	defer func() {
		dst.Close()
		src.Close()
		p.mu.Lock()
		delete(p.conns, src)
		p.mu.Unlock()
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		lost := p.cut || p.conns[src] || p.conns[dst]
		if lost {
			p.conns[src], p.conns[dst] = true, true
		}
		p.mu.Unlock()
		if lost {
			continue
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for c, lost := range p.conns {
		if lost && !cut {
			c.Close()
		}
	}
}

// close ends all connections, as the end of the process at one of their ends does.
func (p *proxy) close() {
	p.mu.Lock()
	p.gone = true
	p.listener.Close()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}
