// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// Link is a TCP proxy before a server, with the faults of a network. Bytes arrive in order, or the connection ends: a
// connection that has lost something stays open and silent until nothing is lost any more, and is reset then. A
// Link is safe for concurrent use.
type Link struct {
	listener net.Listener
	release  func()
	work     sync.WaitGroup

	mu     sync.Mutex
	change *sync.Cond // signals changes of the fields below
	target string
	closed bool
	refuse bool
	slow   time.Duration
	flow   [2]Flow
	made   int
	pairs  map[*pair]bool
}

// Direction is the direction of bytes.
type Direction int

const (
	Up   Direction = iota // from the client to the server
	Down                  // from the server to the client
)

// Flow is what happens to bytes in one direction.
type Flow struct {
	Stall bool          // bytes wait until this ends
	Lose  bool          // bytes are lost; new connections get no answer if this is so in both directions
	Delay time.Duration // bytes arrive later by this
}

type pair struct {
	client, server net.Conn // server is nil if everything is lost
	slow           time.Duration
	lost           [2]bool // in which directions bytes were lost, so that no more can follow
}

// NewLink returns a link to the server at target, a host and a port.
func NewLink(target string) (*Link, error) {
	// The client of a closed link may dial again and again. If the next link had the address, that client would come to
	// another server than before.
	listener, release, err := Listen()
	if err != nil {
		return nil, err
	}
	l := &Link{listener: listener, release: release, target: target, pairs: make(map[*pair]bool)}
	l.change = sync.NewCond(&l.mu)
	l.work.Go(l.accept)
	return l, nil
}

// Addr returns the address, a host and a port, to which clients connect.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Move puts another server behind the address for new connections. Present ones go on, to the server that they lead
// to. This is what happens behind a virtual IP, a proxy or a name that moves to another server.
func (l *Link) Move(target string) { l.set(func() { l.target = target }) }

// Flow sets what happens in a direction. The zero Flow ends it.
func (l *Link) Flow(d Direction, f Flow) { l.set(func() { l.flow[d] = f }) }

// Slow makes new connections slow: what is sent over them arrives d later, in each direction. They carry as much as
// before: requests do not wait for each other.
func (l *Link) Slow(d time.Duration) { l.set(func() { l.slow = d }) }

// Refuse makes the link reset new connections, or accept them again.
func (l *Link) Refuse(yes bool) { l.set(func() { l.refuse = yes }) }

// Forget makes present connections lose everything, as behind a firewall that has forgotten them.
func (l *Link) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		p.lost = [2]bool{true, true}
	}
}

// Heal ends all faults but that of Slow.
func (l *Link) Heal() { l.set(func() { l.refuse, l.flow = false, [2]Flow{} }) }

// set changes the link, and resets the connections that have lost something if nothing is lost any more.
func (l *Link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	for p := range l.pairs {
		if p.lost != [2]bool{} && !l.flow[Up].Lose && !l.flow[Down].Lose {
			p.reset()
		}
	}
	l.change.Broadcast()
}

// Reset resets all connections.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		p.reset()
	}
}

// Made returns how many connections were made to the link so far.
func (l *Link) Made() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made
}

// Lost returns how many connections have lost something, and have not ended.
func (l *Link) Lost() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		if p.lost != [2]bool{} {
			n++
		}
	}
	return n
}

// Close resets all connections and accepts no more. Nobody else gets the address before Release. Close may be called
// again.
func (l *Link) Close() {
	l.listener.Close()
	l.set(func() { l.closed = true })
	l.Reset()
	l.work.Wait()
}

// Release closes the link and gives its address to others.
func (l *Link) Release() {
	l.Close()
	l.release()
}

func (p *pair) reset() {
	for _, c := range []net.Conn{p.client, p.server} {
		if c != nil {
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	}
}

func (l *Link) accept() {
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.mu.Lock()
		l.made++
		l.mu.Unlock()
		l.work.Go(func() { l.serve(&pair{client: c}) })
	}
}

func (l *Link) serve(p *pair) {
	defer p.reset()
	l.mu.Lock()
	target, silent := l.target, l.flow[Up].Lose && l.flow[Down].Lose
	p.slow, p.lost = l.slow, [2]bool{silent, silent}
	l.mu.Unlock()
	if !silent {
		c, err := net.DialTimeout("tcp", target, 5*time.Second)
		if err != nil {
			return
		}
		p.server = c
	}
	l.mu.Lock()
	refused := l.refuse || l.closed
	l.pairs[p] = !refused
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.pairs, p)
		l.mu.Unlock()
	}()
	switch {
	case refused:
	case silent:
		_, _ = io.Copy(io.Discard, p.client)
	default:
		var both sync.WaitGroup
		both.Go(func() { l.copy(p, Up, p.server, p.client) })
		both.Go(func() { l.copy(p, Down, p.client, p.server) })
		both.Wait()
	}
}

type packet struct {
	due  time.Time
	data []byte
	end  bool
}

// copy forwards bytes from src to dst, subject to the faults, until either side ends.
func (l *Link) copy(p *pair, d Direction, dst, src net.Conn) {
	queue := make(chan packet, 1024)
	go func() {
		defer close(queue)
		b := make([]byte, 64<<10)
		for {
			n, err := src.Read(b)
			l.mu.Lock()
			late := p.slow + l.flow[d].Delay
			l.mu.Unlock()
			queue <- packet{time.Now().Add(late), slices.Clone(b[:n]), err != nil}
			if err != nil {
				return
			}
		}
	}()
	ended := false
	for k := range queue { // to the end, so that the reader ends
		time.Sleep(time.Until(k.due))
		if ended || !l.passes(p, d) { // an end that is lost leaves the other side open
			continue
		}
		_, err := dst.Write(k.data)
		if ended = err != nil || k.end; ended {
			dst.Close()
		}
	}
}

// passes waits until bytes may pass, and returns false if they are lost. The end of a stream waits in the same way
// as bytes.
func (l *Link) passes(p *pair, d Direction) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.flow[d].Stall && !l.closed {
		l.change.Wait()
	}
	p.lost[d] = p.lost[d] || l.flow[d].Lose
	return !p.lost[d]
}
