// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest"
)

// ensemble is three servers.
type ensemble struct {
	servers [3]*server
	// outs carry what each server sends to the others, on the connections that it
	// has made: the one to its leader is among them.
	outs [3]*socks
}

// ensembles is locked while there is one: more would be too much for a small machine.
var ensembles sync.Mutex

// startEnsemble starts three servers that give one another up only after 20 s.
func startEnsemble(t testing.TB) *ensemble {
	t.Helper()
	ensembles.Lock()
	t.Cleanup(ensembles.Unlock)
	for range 3 { // somebody else may take a port before a server does
		if e := tryEnsemble(t); e != nil {
			return e
		}
	}
	t.Fatal("no ensemble")
	return nil
}

func tryEnsemble(t testing.TB) *ensemble {
	t.Helper()
	e := new(ensemble)
	var peers []string
	for i := range e.servers {
		_, quorum, _ := net.SplitHostPort(drivertest.FreeAddr(t))
		_, election, _ := net.SplitHostPort(drivertest.FreeAddr(t))
		peers = append(peers, fmt.Sprintf("server.%d=127.0.0.1:%s:%s", i+1, quorum, election))
	}
	for i := range e.servers {
		e.outs[i] = startSocks(t)
		host, port, _ := net.SplitHostPort(e.outs[i].listener.Addr().String())
		s := &server{dir: t.TempDir(), addr: drivertest.FreeAddr(t)}
		s.configure(t, append([]string{
			"initLimit=50", "syncLimit=100", "-DsocksProxyHost=" + host, "-DsocksProxyPort=" + port, "-DsocksNonProxyHosts=",
		}, peers...)...)
		if err := os.WriteFile(filepath.Join(s.dir, "myid"), []byte(fmt.Sprint(i+1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.kill)
		e.servers[i] = s
	}
	for _, s := range e.servers {
		if !s.serves(patience) {
			return nil
		}
	}
	return e
}

// serve waits until all servers that run serve.
func (e *ensemble) serve(t testing.TB) {
	t.Helper()
	for _, s := range e.servers {
		if s.alive() && !s.serves(patience) {
			t.Fatalf("a server of the ensemble does not serve:\n%s", s.out)
		}
	}
}

// leader returns the number of the leader.
func (e *ensemble) leader(t testing.TB) int {
	t.Helper()
	found := -1
	eventually(patience, func() bool {
		for i, s := range e.servers {
			if s.alive() && strings.Contains(s.word("srvr"), "Mode: leader") {
				found = i
			}
		}
		return found >= 0
	})
	if found < 0 {
		t.Fatal("the ensemble has no leader")
	}
	return found
}

// url returns the URL of some of the servers.
func (e *ensemble) url(which ...int) string {
	var addrs []string
	for _, i := range which {
		addrs = append(addrs, e.servers[i].addr)
	}
	return "zk://" + strings.Join(addrs, ",")
}

// socks is a SOCKS5 proxy through which the connections of one Java process go. It
// can be cut: then it loses what comes, and keeps the connections open.
type socks struct {
	listener net.Listener
	work     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	cut    bool
	conns  map[net.Conn]bool
}

func startSocks(t testing.TB) *socks {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &socks{listener: l, conns: make(map[net.Conn]bool)}
	p.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(p.close)
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
	both.Go(func() { p.copy(out, in) })
	both.Go(func() { p.copy(in, out) })
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

func (p *socks) copy(dst, src net.Conn) {
	defer dst.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := src.Read(b)
		if err != nil {
			return
		}
		if !p.isCut() {
			if _, err := dst.Write(b[:n]); err != nil {
				return
			}
		}
	}
}

func (p *socks) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
	return !p.closed
}

func (p *socks) isCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

// setCut cuts or heals. What was lost in between breaks the connections.
func (p *socks) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut && !cut {
		for c := range p.conns {
			c.Close()
		}
		clear(p.conns)
	}
	p.cut = cut
}

func (p *socks) close() {
	p.mu.Lock()
	p.closed = true
	p.listener.Close()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}

// openURL returns a participant of the servers at url.
func openURL(t testing.TB, url string, ttl time.Duration) *store {
	t.Helper()
	d, err := NewDriver(t.Context(), url, options(ttl))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d.(*store)
}
