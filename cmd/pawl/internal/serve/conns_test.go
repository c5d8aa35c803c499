// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener to which connections are made from any address.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

type from struct {
	net.Conn
	host string
}

func (f from) RemoteAddr() net.Addr { return addr(f.host + ":1") }

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

func (p pipes) dial(host string) net.Conn {
	theirs, c := net.Pipe()
	p <- from{c, host}
	return theirs
}

// ask sends a request and returns the first line of the answer.
func ask(t *testing.T, c net.Conn, path, token string) string {
	t.Helper()
	go fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", path, token)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

// TestStrangersKeepNobodyOut: connections without a token, however many, keep out neither /healthz, nor who has the token, nor
// a stranger from another address.
func TestStrangersKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const token = "0123456789abcdef"
		l, s := make(pipes), New(nil, Options{Token: token})
		stop := running(t, func(ctx context.Context) error { return s.Run(ctx, l) })
		began := time.Now()
		stream := l.dial("10.0.0.1")
		if got := ask(t, stream, "/api/events", token); got != "HTTP/1.1 200 OK" {
			t.Fatalf("a stream: %q", got)
		}
		read := make(chan error, 1)
		go func() { _, err := io.Copy(io.Discard, stream); read <- err }()
		slow := l.dial("10.0.0.2")
		for i := range 5 * maxStrangers {
			c := l.dial("10.0.0.3")
			if i%2 == 0 {
				go ask(t, c, "/api/locks", "wrong")
			}
			synctest.Wait()
		}
		for what, c := range map[string]net.Conn{"a new connection": l.dial("10.0.0.3"), "an early one": slow} {
			if got := ask(t, c, "/healthz", ""); got != "HTTP/1.1 200 OK" {
				t.Errorf("%s: %q; want an answer", what, got)
			}
		}
		if got := ask(t, l.dial("10.0.0.3"), "/metrics", token); got != "HTTP/1.1 200 OK" {
			t.Errorf("with the token: %q; want an answer", got)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v; want no wait", took)
		}
		select {
		case err := <-read:
			t.Errorf("the stream was ended by strangers: %v", err)
		default:
		}
		stop()
	})
}

// TestTooManyFriends: who has the token is told that there are too many connections, and why.
func TestTooManyFriends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := make(pipes), New(nil, Options{})
		stop := running(t, func(ctx context.Context) error { return s.Run(ctx, l) })
		var streams []net.Conn
		for range maxFriends {
			c := l.dial("10.0.0.1")
			if got := ask(t, c, "/api/events", ""); got != "HTTP/1.1 200 OK" {
				t.Fatalf("a stream: %q", got)
			}
			streams = append(streams, c)
		}
		if got := ask(t, l.dial("10.0.0.1"), "/api/locks", ""); !strings.Contains(got, "503") {
			t.Errorf("one too many: %q; want 503", got)
		}
		streams[0].Close()
		time.Sleep(2 * patient) // the server finds out
		if got := ask(t, l.dial("10.0.0.1"), "/api/locks", ""); got != "HTTP/1.1 200 OK" {
			t.Errorf("after one has gone: %q; want an answer", got)
		}
		stop()
	})
}

// TestConns: there are never more than so many, and each one that ends leaves room.
func TestConns(t *testing.T) {
	cs := new(conns)
	var first []*conn
	for i := range 3 * maxStrangers {
		one, _ := net.Pipe()
		c := &conn{Conn: one, of: cs, host: fmt.Sprint(i % 7)}
		if i < 5 {
			first = append(first, c)
		}
		if most := cs.add(c); most != nil {
			if most.befriend() {
				t.Fatal("a connection becomes a friend when it is to be closed")
			}
			most.Close()
		}
		if n := len(cs.strangers); n != min(i+1, maxStrangers) {
			t.Fatalf("%d strangers after %d connections", n, i+1)
		}
	}
	for _, c := range first { // which were closed long ago
		if c.Close(); c.befriend() || len(cs.friends) != 0 || len(cs.strangers) != maxStrangers {
			t.Fatalf("%d friends, %d strangers after one was closed twice", len(cs.friends), len(cs.strangers))
		}
	}
	for len(cs.strangers) > 0 {
		c := cs.strangers[0]
		if !c.befriend() || len(cs.friends) != 1 {
			t.Fatalf("%d friends; want one", len(cs.friends))
		}
		c.Close()
	}
	if len(cs.friends) != 0 {
		t.Errorf("%d friends are left", len(cs.friends))
	}
}
