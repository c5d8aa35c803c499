// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// dialer returns what makes connections, and returns both ends.
func dialer(t *testing.T, c *Contact) (dial func() (here, there net.Conn)) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return func() (here, there net.Conn) {
		here, err := c.dial(t.Context(), l.Addr().String(), &net.Dialer{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if there, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		there.SetDeadline(time.Now().Add(20 * time.Second))
		here.SetDeadline(time.Now().Add(20 * time.Second))
		return here, there
	}
}

// TestGiveUp: of the connections to a server those are given up by which nothing has been
// heard, and no other.
func TestGiveUp(t *testing.T) {
	var c Contact
	dial := dialer(t, &c)
	heard, speaks := dial()
	say := func() {
		t.Helper()
		if _, err := speaks.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if n, err := heard.Read(make([]byte, 1)); n != 1 {
			t.Errorf("a connection by which something was heard: %v", err)
		}
	}
	say()
	_, silent := dial()
	c.GiveUp()
	if _, err := silent.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a connection by which nothing was heard has not ended: %v", err)
	}
	say()
	later, speaks := dial()
	if _, err := speaks.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if n, err := later.Read(make([]byte, 1)); n != 1 {
		t.Errorf("a later connection: %v", err)
	}
}

// TestGiveUpWhileConnecting: what is given up at any time while it is made ends.
func TestGiveUpWhileConnecting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // with a full queue of connections to accept, none would stand
		for {
			there, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(io.Discard, there)
				there.Close()
			}()
		}
	}()
	var c Contact
	began := time.Now()
	for stood := 0; stood < 500; { // many are given up before they stand
		if time.Since(began) > 4*time.Minute {
			t.Fatalf("only %d connections stood before they were given up", stood)
		}
		made := make(chan net.Conn, 1)
		go func() {
			conn, _ := c.dial(t.Context(), l.Addr().String(), &net.Dialer{}, nil)
			made <- conn
		}()
		time.Sleep(rand.N(10 * time.Microsecond << rand.IntN(8)))
		c.GiveUp()
		conn := <-made
		if conn == nil {
			continue
		}
		stood++
		c.GiveUp()
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("Read = %v; want that the connection was closed", err)
		}
	}
}

// TestHeardWhileConnecting: what was heard on a connection while the next one was made
// counts for those before it, at whatever moment it came.
func TestHeardWhileConnecting(t *testing.T) {
	var c Contact
	dial := dialer(t, &c)
	here, there := dial()
	for range 4000 {
		var all sync.WaitGroup
		all.Go(func() { io.Copy(io.Discard, here) })
		all.Go(func() {
			for range 20 {
				there.Write([]byte("x"))
			}
			there.Close()
		})
		nextHere, nextThere := dial()
		all.Wait()
		if left, heard := c.left.Load(), c.heard.Load(); left != heard {
			t.Fatalf("the connections before were heard of %v after what is known of them", time.Duration(heard-left))
		}
		here.Close()
		here, there = nextHere, nextThere
	}
	here.Close()
	there.Close()
}
