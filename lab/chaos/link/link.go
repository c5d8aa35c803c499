// SPDX-License-Identifier: Apache-2.0

// Package link is a TCP proxy that simulates the faults of TCP. Bytes arrive in order, or
// the connection ends. But they may arrive late, in one direction only, or not at all
// before the connection is reset.
package link

import (
	"net"
	"sync"
	"time"
)

// Link forwards connections from its own address to a target.
type Link struct {
	listener net.Listener

	mu     sync.Mutex
	change *sync.Cond // signals changes of the fields below
	target string
	closed bool
	refuse bool
	fault  [2]Fault
	pairs  map[*pair]bool
}

// Direction is the direction of bytes.
type Direction int

const (
	Up   Direction = iota // from the client to the server
	Down                  // from the server to the client
)

// Fault is what happens to bytes in one direction.
type Fault struct {
	Stall bool          // bytes wait until the fault ends
	Lose  bool          // bytes are lost; when the fault ends, their connections are reset
	Delay time.Duration // bytes are late by this
}

type pair struct {
	client, server net.Conn
	lost           bool // bytes were lost, so the connection cannot go on
}

// New returns a link to target.
func New(target string) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{listener: listener, target: target, pairs: make(map[*pair]bool)}
	l.change = sync.NewCond(&l.mu)
	go l.accept()
	return l, nil
}

// Addr returns the address to which clients connect.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// SetTarget changes the target of new connections. Open connections stay.
func (l *Link) SetTarget(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
}

// Set sets the fault of a direction. The zero Fault ends a fault.
func (l *Link) Set(d Direction, f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault[d] = f
	for p := range l.pairs {
		if p.lost && !f.Lose {
			p.reset()
		}
	}
	l.change.Broadcast()
}

// Refuse makes the link close new connections at once, or accept them again.
func (l *Link) Refuse(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = yes
}

// Reset resets all connections.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		p.reset()
	}
}

// Heal ends all faults.
func (l *Link) Heal() {
	l.Refuse(false)
	l.Set(Up, Fault{})
	l.Set(Down, Fault{})
}

// Close ends the link.
func (l *Link) Close() {
	l.listener.Close()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.Heal()
	l.Reset()
}

func (p *pair) reset() {
	for _, c := range []net.Conn{p.client, p.server} {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
}

func (l *Link) accept() {
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return
		}
		go l.serve(c)
	}
}

func (l *Link) serve(client net.Conn) {
	l.mu.Lock()
	target, refuse := l.target, l.refuse || l.closed
	l.mu.Unlock()
	if refuse {
		client.Close()
		return
	}
	server, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		client.Close()
		return
	}
	p := &pair{client: client, server: server}
	l.mu.Lock()
	l.pairs[p] = true
	l.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { l.copy(p, Up, server, client) })
	both.Go(func() { l.copy(p, Down, client, server) })
	both.Wait()
	l.mu.Lock()
	delete(l.pairs, p)
	l.mu.Unlock()
}

// copy forwards bytes from src to dst, subject to the faults, until either side ends.
func (l *Link) copy(p *pair, d Direction, dst, src net.Conn) {
	defer dst.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := src.Read(b)
		if !l.pass(p, d) {
			if err != nil {
				return
			}
			continue
		}
		if n > 0 {
			if _, err := dst.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits until bytes may pass, and returns false if they are lost. The end of a
// stream waits in the same way as bytes.
func (l *Link) pass(p *pair, d Direction) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		f := l.fault[d]
		switch {
		case l.closed:
			return true
		case f.Lose:
			p.lost = true
			return false
		case f.Stall:
			l.change.Wait()
			continue
		case f.Delay > 0:
			l.mu.Unlock()
			time.Sleep(f.Delay)
			l.mu.Lock()
		}
		return !p.lost
	}
}
