// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// socks is a SOCKS5 proxy through which the connections of one Java process go. It
// can be cut: then it loses what comes, and keeps the connections open. Or it holds
// what the process sends, and passes it on later, as a network does that loses packets for a
// while.
type socks struct {
	listener net.Listener
	work     sync.WaitGroup

	mu    sync.Mutex
	state fault
	after []byte // behind it, as the process sends it, next begins; nil if nothing does
	next  fault
	seen  chan struct{} // closed then
	conns map[net.Conn]*backlog
}

type fault int

const (
	healthy fault = iota
	cut           // both directions
	mute          // what the process sends is lost
	holding       // what the process sends comes later
	closed
)

// backlog is what a connection has not passed on yet.
type backlog struct {
	lossy   bool // something was lost
	to      net.Conn
	waiting [][]byte
}

func startSocks(t testing.TB) *socks {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &socks{listener: l, conns: make(map[net.Conn]*backlog)}
	p.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(c) })
		}
	})
	return p
}

func (p *socks) serve(in net.Conn) {
	defer in.Close()
	out, err := greet(in)
	if err != nil || !p.keep(in, out) {
		return
	}
	defer out.Close()
	var both sync.WaitGroup
	both.Go(func() { p.copy(out, in, true) })
	both.Go(func() { p.copy(in, out, false) })
	both.Wait()
}

// greet reads where the client wants to go, and goes there: RFC 1928, without
// authentication.
func greet(in net.Conn) (net.Conn, error) {
	b := make([]byte, 256)
	if _, err := io.ReadFull(in, b[:2]); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(in, b[:b[1]]); err != nil {
		return nil, err
	}
	in.Write([]byte{5, 0})
	if _, err := io.ReadFull(in, b[:4]); err != nil {
		return nil, err
	}
	n := map[byte]int{1: 4, 4: 16}[b[3]]
	if n == 0 {
		return nil, fmt.Errorf("address of type %d", b[3])
	}
	if _, err := io.ReadFull(in, b[:n+2]); err != nil {
		return nil, err
	}
	addr := net.JoinHostPort(net.IP(b[:n]).String(), fmt.Sprint(binary.BigEndian.Uint16(b[n:])))
	out, err := net.Dial("tcp", addr)
	if err != nil {
		in.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0})
		return nil, err
	}
	in.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	return out, nil
}

func (p *socks) copy(dst, src net.Conn, sends bool) {
	defer dst.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := src.Read(b)
		if n > 0 && !p.pass(dst, src, b[:n], sends) || err != nil {
			return
		}
	}
}

// pass passes on what has come from src, or does not. One at a time: what was held goes
// before what comes later.
func (p *socks) pass(dst, src net.Conn, b []byte, sends bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.conns[src]
	if h == nil {
		return false
	}
	if sends && p.after != nil && bytes.Contains(b, p.after) {
		defer func() {
			p.after, p.state = nil, p.next
			close(p.seen)
		}()
	}
	switch {
	case p.state == cut, p.state == mute && sends:
		h.lossy = true
	case p.state == holding && sends:
		h.to, h.waiting = dst, append(h.waiting, bytes.Clone(b))
	default:
		_, err := dst.Write(b)
		return err == nil
	}
	return true
}

func (p *socks) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = new(backlog)
	}
	return p.state != closed
}

// set begins a fault.
func (p *socks) set(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = f
}

// setAfter has a fault begin behind a text that the process sends. The channel is closed
// then.
func (p *socks) setAfter(text string, f fault) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after, p.next, p.seen = []byte(text), f, make(chan struct{})
	return p.seen
}

// heal ends all faults. What was held comes now; what was lost breaks the connections.
func (p *socks) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.after = healthy, nil
	for c, h := range p.conns {
		for _, b := range h.waiting {
			h.to.Write(b)
		}
		h.waiting = nil
		if h.lossy {
			c.Close()
			delete(p.conns, c)
		}
	}
}

func (p *socks) close() {
	p.mu.Lock()
	p.state = closed
	p.listener.Close()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}
