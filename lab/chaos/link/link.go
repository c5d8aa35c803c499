// SPDX-License-Identifier: Apache-2.0

// Package link is a TCP proxy whose faults are those that TCP has: what is sent
// arrives in order or the connection ends; but it may arrive late, in one direction
// only, or not before the connection is reset.
package link

import (
	"net"
	"sync"
	"time"
)

// Link leads from an address of its own to a target.
type Link struct {
	listener net.Listener

	mu     sync.Mutex
	change *sync.Cond // of what is below
	target string
	closed bool
	refuse bool
	fault  [2]Fault
	pairs  map[*pair]bool
}

// Direction is that of bytes.
type Direction int

const (
	Up   Direction = iota // from the client to the server
	Down                  // from the server to the client
)

// Fault is what happens to bytes in one direction.
type Fault struct {
	Stall bool          // nothing passes; it does later
	Lose  bool          // nothing passes, ever: the connections are reset when the fault ends
	Delay time.Duration // for each piece
	// Of says which connections it concerns, by their first bytes; all, if nil.
	Of func(first []byte) bool
}

type pair struct {
	client, server net.Conn
	first          []byte
	lost           bool // bytes were lost: it cannot go on
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

// Addr is where clients connect.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// SetTarget changes where new connections lead. Those that are there stay.
func (l *Link) SetTarget(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
}

// Set sets the fault of one direction; the zero one ends it.
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

// Refuse ends new connections at once, or lets them in again.
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

// copy carries what comes, as long as it may.
func (l *Link) copy(p *pair, d Direction, dst, src net.Conn) {
	defer dst.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := src.Read(b)
		if d == Up && p.first == nil {
			l.mu.Lock()
			p.first = append([]byte{}, b[:n]...)
			l.mu.Unlock()
		}
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

// pass waits until bytes may pass, and reports false if they are lost. The end of a
// stream has to wait as bytes do.
func (l *Link) pass(p *pair, d Direction) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		f := l.fault[d]
		switch {
		case f.Of != nil && !f.Of(p.first), l.closed:
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
